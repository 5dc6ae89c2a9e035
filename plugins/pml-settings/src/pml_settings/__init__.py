"""The configuration: where it comes from, what it may say, and who is trusted to say it."""
