"""The ``dbos`` executor: workflows that survive the gateway, on DBOS Transact."""

from __future__ import annotations

from .executor import Dbos
from .settings import Settings

__all__ = ["Dbos", "Settings"]
