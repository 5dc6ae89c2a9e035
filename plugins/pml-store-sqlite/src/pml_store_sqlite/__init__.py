"""The store that keeps executions, spans and the catalog in one SQLite file."""

from __future__ import annotations

from pml_stores.errors import StoreError

from .settings import Settings
from .store import SqliteStore

__all__ = ["Settings", "SqliteStore", "StoreError"]
