"""Hook plugin ``hybrid``: the blacklist holds for every listing and every call, in all modes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pml_hookspecs import NamedTools, hookimpl

from .blacklist import Blacklist
from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Services, Session, ToolFilter

settings_type = Settings


class BlacklistFilter:
    """Drops blacklisted tools. Implements :class:`pml_hookspecs.ToolFilter`."""

    shared = True

    def __init__(self, blacklist: Blacklist, services: Services) -> None:
        self._blacklist, self._services = blacklist, services

    def __call__(self, entry: CatalogEntry, session: Session) -> bool:
        """Whether ``entry`` may be seen and called; the same for every session."""
        return entry.id not in self._blacklist.ids(self._services.catalog) and entry not in self._blacklist


@hookimpl
def pml_filter_tools(services: Services) -> Iterable[ToolFilter]:
    """One filter; none when nothing is blacklisted."""
    settings: Settings = services.settings or Settings()
    return [BlacklistFilter(Blacklist(settings.blacklisted_tools), services)] if settings.blacklisted_tools else []


@hookimpl
def pml_named_tools(services: Services) -> Iterable[NamedTools]:
    """What both lists name."""
    settings: Settings = services.settings or Settings()
    for key in ("whitelisted_tools", "blacklisted_tools"):
        yield NamedTools(f"plugins.hybrid.{key}", getattr(settings, key))
