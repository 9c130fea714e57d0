"""What runs beside executions: schedules."""

__maturity__ = "beta"
