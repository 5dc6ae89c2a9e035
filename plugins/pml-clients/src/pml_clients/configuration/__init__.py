"""The configuration as files: which there are, what stands in them, and which of them the user has agreed to."""
