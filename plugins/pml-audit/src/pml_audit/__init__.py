"""Keeps an append-only record of who was denied what, who asked for history, and what was changed."""
