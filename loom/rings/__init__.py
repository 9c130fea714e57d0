"""What stands round effects: middleware and guards that an app wires, and that cost nothing where it does not."""

__maturity__ = "experimental"
