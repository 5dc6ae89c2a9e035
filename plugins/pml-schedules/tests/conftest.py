"""A server for those who share a database."""

from pml_testing.postgres import postgres

__all__ = ["postgres"]
