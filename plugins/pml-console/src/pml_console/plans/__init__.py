"""Pages of what is run besides what agents ask for: plans, learned code, schedules."""
