"""Exposure modes: which tools a client sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ._markers import hookspec

if TYPE_CHECKING:
    from .services import Services
    from .types import Catalog, CatalogEntry, Match, Session, ToolId

GROUP = "pml.exposure_mode"


@dataclass(frozen=True, slots=True)
class Selection:
    """Answer of an exposure mode."""

    tools: tuple[ToolId, ...]
    """In the order the client should read them. No duplicates; every id is in the catalog."""
    shared: bool = False
    """True when the answer is the same for every session of this endpoint (``cacheScope: public``)."""
    why: Mapping[ToolId, str] = field(default_factory=dict)
    """One line per tool that says why it was picked; may be empty."""


class ExposureMode(Protocol):
    """Chooses the tools a client sees. Registered in ``pml.exposure_mode``; one is active per listener.

    A class: ``Mode(settings, services)``; ``settings_type`` names its settings. A mode is a function of its two
    arguments: called twice with the same ``catalog.revision`` and an equal session it returns an equal selection, in
    the same order. MCP requires lists to be stable, and the gateway caches on it. A mode does not fetch, rename or
    check permissions: the gateway renders names, and :meth:`ExposureHooks.pml_filter_tools` removes what the session
    may not have. Hidden is not forbidden: a tool that a mode did not list can still be called.
    """

    async def select(self, catalog: Catalog, session: Session) -> Selection:
        """Pick tools for this session.

        Args:
            catalog: Everything known. ``entry.meta`` marks the meta-tools, ``entry.own`` all tools of the gateway.
            session: Who is asking. ``session.intent`` is often empty; a mode must give a usable answer then.

        Returns:
            The selection. Ids missing from the catalog are dropped and logged as a plugin fault.

        Raises:
            Exception: Any. The gateway then shows the meta-tools only and logs the fault.
        """
        ...


class ToolFilter(Protocol):
    """Drops tools a session must not have. Can only remove, never add."""

    def __call__(self, entry: CatalogEntry, session: Session) -> bool:
        """Return True to keep the tool. Must not block: runs once per tool per listing and once per call."""
        ...


class SearchIndex(Protocol):
    """Ranks catalog entries against a query. Backs ``Catalog.search``."""

    async def build(self, entries: Sequence[CatalogEntry], revision: str) -> None:
        """Index ``entries``, replacing what was there. Searches keep using the old index until this returns."""
        ...

    async def search(self, query: str, *, limit: int, min_score: float) -> Sequence[Match]:
        """At most ``limit`` matches scoring ``min_score`` or more, best first, ties by id. Empty query: none."""
        ...


class ExposureHooks:
    """Hooks around listing and finding tools."""

    @hookspec
    def pml_search_index(self, services: Services) -> Iterable[SearchIndex]:
        """Provide the search index. The first one by plugin name is used; without any, the core's BM25.

        Called once, at start-up. Raising quarantines the plugin.
        """
        return ()

    @hookspec
    def pml_filter_tools(self, services: Services) -> Iterable[ToolFilter]:
        """Contribute filters applied to every selection and every call, whichever mode made the selection.

        A tool is shown, and can be called, only if every filter keeps it. A filter that raises counts as "drop".
        Called once, at start-up, in plugin-name order. Raising quarantines the plugin.
        """
        return ()
