"""The table ``[plugins.search]``, and the folder that its ``cache`` means."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.search]``."""

    cache: bool = setting(True, "Keep the index in the cache folder of PML_HOME, so that a restart is quick.")
    learn_from_history: bool = setting(
        True, "Let search_tools prefer, a little, what the same principal used before for the like."
    )
    embedder_weight: float = setting(
        0.5, "What the vectors of an installed embedder count against the built-in table; 0 does without.", ge=0, le=1
    )
    embedder_deadline_ms: int = setting(200, "Longest time a search waits for an embedder [ms].", ge=1, le=10_000)


def cache_folder() -> Path:
    """Where built indexes are kept: ``cache/search`` in the folder ``PML_HOME``, or in ``~/.pml``."""
    return Path(os.environ.get("PML_HOME") or Path.home() / ".pml") / "cache" / "search"
