"""Make the plan real on Kueue: a gate and a check decide when a job may start, and nothing running is stopped."""
