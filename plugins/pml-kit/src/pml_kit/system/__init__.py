"""What is about the machine: time limits, folders, environments, who is still there."""
