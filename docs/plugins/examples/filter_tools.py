"""Tools that only callers with a scope may have: all others neither see, find nor call them, in any mode."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pml_hookspecs import CatalogEntry, Services, Session, ToolFilter, hookimpl, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    only: dict[str, str] = setting(dict, "Scope that a caller needs, by pattern of tool ids.")


settings_type = Settings


@hookimpl
def pml_filter_tools(services: Services) -> Iterable[ToolFilter]:
    only: dict[str, str] = services.settings.only

    def keep(entry: CatalogEntry, session: Session) -> bool:
        return all(scope in session.scopes for pattern, scope in only.items() if fnmatchcase(entry.id, pattern))

    return [keep]
