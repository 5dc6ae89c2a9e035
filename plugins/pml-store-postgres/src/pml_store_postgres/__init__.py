"""The store that keeps executions, spans and the catalog in PostgreSQL."""

from __future__ import annotations

from pml_stores.errors import StoreError

from .settings import Settings
from .store import PostgresStore

__all__ = ["PostgresStore", "Settings", "StoreError"]
