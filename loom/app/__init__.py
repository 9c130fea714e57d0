"""The composition root: what an app is made of, wired from one static value."""

__maturity__ = "beta"
