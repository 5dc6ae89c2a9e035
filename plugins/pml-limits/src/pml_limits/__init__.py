"""Limits calls by rules: rate, concurrency, time and daily cost."""
