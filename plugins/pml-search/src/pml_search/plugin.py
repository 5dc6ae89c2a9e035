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


settings_type = Settings


@hookimpl
def pml_search_index(services: Services) -> Iterable[SearchIndex]:
    """The index."""
    from .index import Index
    from .places import cache_folder

    settings = services.settings or Settings()
    return [Index(services.log, cache_folder() if settings.cache else None)]


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """``pml search``."""
    from .command import add

    add(subcommands)
