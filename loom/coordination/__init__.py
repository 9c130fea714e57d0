"""What several runs, or several looks at one, have to do with each other: live queries, sagas. Built on the kernel's syscalls."""

__maturity__ = "experimental"
