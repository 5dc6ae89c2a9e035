"""A page for people."""
