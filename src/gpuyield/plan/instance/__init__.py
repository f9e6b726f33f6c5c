"""The problem as the planner sees it: tasks, what is free when, and schedules of them."""
