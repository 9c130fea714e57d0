"""One folder per vendor or protocol, each behind an extra of the same name."""

__maturity__ = "beta"
