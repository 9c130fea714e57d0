"""Ways to look at a log. Pure: what every command, the debugger and the pages show is computed here, without words."""

__maturity__ = "beta"
