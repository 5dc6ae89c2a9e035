"""The ``dag`` executor: runs workflows, graphs of tasks that hand results on to one another."""

from __future__ import annotations

from .executor import Dag
from .settings import Settings

__all__ = ["Dag", "Settings"]
