"""The folders that the index and vectors are kept in."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where built indexes are kept: ``cache/search`` in the folder ``PML_HOME``, or in ``~/.pml``."""
    return Path(os.environ.get("PML_HOME") or Path.home() / ".pml") / "cache" / "search"
