"""Rehearses tasks: what would run is told, nothing runs."""
