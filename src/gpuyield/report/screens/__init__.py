"""Answers of the commands as people see them: one file per verb."""
