"""The types and declarations that everything else speaks of. It does nothing by itself."""

__maturity__ = "beta"
