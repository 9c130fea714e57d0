"""What runs beside executions: schedules."""
