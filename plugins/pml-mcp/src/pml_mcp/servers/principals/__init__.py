"""Servers at which each principal has a login of its own."""
