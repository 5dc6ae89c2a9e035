"""Where words of untrusted servers may flow."""
