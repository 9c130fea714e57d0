"""What authors of apps and plugins build and check with."""

__maturity__ = "experimental"
