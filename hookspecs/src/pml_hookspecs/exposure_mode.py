"""Exposure modes: which tools a client sees."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
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
    """Chooses the tools a client sees. Registered in ``pml.exposure_mode``; one is in use per endpoint or key.

    A class: ``Mode(settings, services)``; ``settings_type`` names its settings. A mode is a function of its two
    arguments: called twice with the same ``catalog.revision`` and an equal session it returns an equal selection, in
    the same order. MCP requires lists to be stable, and the gateway caches on it. A mode does not fetch, rename or
    check permissions: the gateway renders names, and ``pml_filter_tools`` removes what the session
    may not have. Hidden is not forbidden: a tool that a mode did not list can still be called.

    One may have a member ``whole_catalog: bool``, False where it picks none but the gateway's own tools: its list waits
    for no server. Without it, the first lists wait, within a bound, for servers never seen before. And one may have a
    member ``lists_meta_tools: bool``, False where clients need not be told how to use those.
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
    """Drops tools a session must not have. Can only remove, never add.

    One may have a member ``shared: bool``, True while it keeps the same for every session; without it, it may differ.
    One may have a member ``hides: bool``, True where not even that there is such a tool may be told: a call of what it
    drops is answered as that of a tool that nobody has. Without it, the call is told that the plugin refused it, and so
    it is of the gateway's own tools, whose names are no secret.
    """

    def __call__(self, entry: CatalogEntry, session: Session) -> bool:
        """Return True to keep the tool, False to drop it; whatever else is returned drops it, too.

        A plain function: an async one, or a generator, keeps the gateway from starting. Must not block: runs once per
        tool per listing and once per call.
        """
        ...


class SearchIndex(Protocol):
    """Ranks catalog entries against a query. Backs ``Catalog.search``."""

    async def build(self, entries: Sequence[CatalogEntry], revision: str) -> None:
        """Index ``entries``, replacing what was there. Searches keep using the old index until this returns.

        Called in the background, never twice at a time. Tools that have not changed since the last time have the same
        ``digest``.
        """
        ...

    async def search(
        self,
        query: str,
        *,
        limit: int,
        min_score: float,
        among: Collection[ToolId] | None = None,
        session: Session | None = None,
    ) -> Sequence[Match]:
        """At most ``limit`` matches scoring ``min_score`` or more, best first, ties by id. Empty query: none.

        Args:
            query: In any language, of any length.
            limit: Most matches.
            min_score: Least relevance, in ``[0, 1]``.
            among: Ids that may be found; scores and order tell nothing of others. None for all. The same object for
                the same view of the same revision, so that what is made of it can be kept.
            session: Who asks, for evidence from its own past; None when nobody does.
        """
        ...


class Embedder(Protocol):
    """Turns texts into vectors whose inner product says how alike their meanings are."""

    @property
    def name(self) -> str:
        """Of the model and all that changes its vectors: part of the key under which vectors are kept."""
        ...

    async def embed(self, texts: Sequence[str], *, query: bool) -> Any:
        """One vector of unit length for each text, in order: what ``numpy.asarray`` takes, of shape (texts, size).

        Args:
            texts: Any number, of any length; what is too long for the model is cut.
            query: True for what somebody asks, False for what is searched; some models tell them apart.

        Raises:
            Exception: Any, such as a service that cannot be reached. The search goes without.
        """
        ...


@dataclass(frozen=True, slots=True)
class View:
    """What the clients of one endpoint are shown."""

    endpoint: str
    mode: str
    """Name of the exposure mode."""
    intent: str = ""
    execution_mode: Literal["", "real", "dry_run"] = ""
    """What a call does that does not say itself; ``""`` as the gateway is configured."""


class Views(Protocol):
    """The lists that clients get, for plugins that measure or explain them."""

    def endpoints(self) -> Sequence[View]:
        """As configured, ``default`` first."""
        ...

    async def listed(
        self, mode: str, *, intent: str = "", settings: Mapping[str, Any] | None = None
    ) -> Sequence[CatalogEntry]:
        """What a local client would be shown, in order.

        Args:
            mode: Name of an installed exposure mode.
            intent: Hint at what the client does.
            settings: Members of the mode's own table that take the place of those configured, to try them out.

        Raises:
            LookupError: No such mode is installed.
            ValueError: The settings do not fit.
        """
        ...
