"""Runs things at times that somebody named."""
