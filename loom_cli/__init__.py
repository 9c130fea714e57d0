"""The `loom` command: thin shells (argv, terminal, files) over the pure cores in `loom`."""

__maturity__ = "beta"
