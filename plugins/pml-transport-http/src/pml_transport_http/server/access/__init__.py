"""Who may open how much, for how long, and with tokens for what."""
