"""Pictures of executions, as SVG."""
