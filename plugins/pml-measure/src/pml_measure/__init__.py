"""What exposure modes cost and find, measured on the user's own catalog. Nothing leaves the machine."""
