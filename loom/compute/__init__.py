"""Where and in which order runs are driven. Nothing here is durable, and no log tells of it."""

__maturity__ = "experimental"
