"""Hook plugin ``hybrid``: the blacklist holds for every listing and every call, in all modes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import TOOL_NAMES, NamedTools

from .blacklist import Blacklist
from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Services, Session, ToolFilter
    from pml_kit.offers import View

settings_type = Settings


def settings_warnings(settings: Settings, views: Sequence[View], servers: Collection[str]) -> Iterable[str]:
    """What is hardly meant in the table, for ``pml config check`` and the log."""
    from . import config_warnings

    return config_warnings.settings_warnings(settings, views, servers)


class BlacklistFilter:
    """Drops blacklisted tools. Implements :class:`pml_hookspecs.ToolFilter`."""

    shared = True

    def __init__(self, blacklist: Blacklist, services: Services) -> None:
        self._blacklist, self._services = blacklist, services

    def __call__(self, entry: CatalogEntry, session: Session) -> bool:
        """Whether ``entry`` may be seen and called; the same for every session."""
        return entry.id not in self._blacklist.ids(self._services.catalog) and entry not in self._blacklist

    def why(self, _entry: CatalogEntry, _session: Session) -> str:
        """In the words of the settings."""
        return "[plugins.hybrid] blacklisted_tools has it"


@hookimpl
def pml_filter_tools(services: Services) -> Iterable[ToolFilter]:
    """One filter; none when nothing is blacklisted."""
    settings: Settings = services.settings or Settings()
    return [BlacklistFilter(Blacklist(settings.blacklisted_tools), services)] if settings.blacklisted_tools else []


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """What both lists name."""
    settings: Settings = services.settings or Settings()

    async def names() -> Sequence[NamedTools]:
        return [
            NamedTools("plugins.hybrid.whitelisted_tools", settings.whitelisted_tools),
            NamedTools("plugins.hybrid.blacklisted_tools", settings.blacklisted_tools),
        ]

    return [Offer(TOOL_NAMES, names)]
