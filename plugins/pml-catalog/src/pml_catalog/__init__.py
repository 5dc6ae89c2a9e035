"""Which tools there are, what they are called, and which of them whom is shown."""
