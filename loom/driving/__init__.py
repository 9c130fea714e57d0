"""Who drives an execution: the verbs of the runtime, the drives of a process, and how a gate is addressed."""

__maturity__ = "beta"
