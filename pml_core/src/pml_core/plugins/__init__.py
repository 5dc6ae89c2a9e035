"""Plugins: found, loaded, checked, supervised, and what they are handed."""
