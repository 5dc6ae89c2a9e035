"""Stores on a database."""
