"""Asks a human before a task with effects runs."""
