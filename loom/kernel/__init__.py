"""What an execution is: the log of one, its fold, and the drive that runs a body against it."""

__maturity__ = "beta"
