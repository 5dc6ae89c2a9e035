"""Hook plugin ``search``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import hookimpl, setting

if TYPE_CHECKING:
    from pml_hookspecs import SearchIndex, Services


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


settings_type = Settings


@hookimpl
def pml_search_index(services: Services) -> Iterable[SearchIndex]:
    """The index."""
    from .folders import cache_folder
    from .index import Index

    settings = services.settings or Settings()
    return [Index(services.log, cache_folder() if settings.cache else None, services, settings)]


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml search``."""
    from .command import add

    add(subcommands)
