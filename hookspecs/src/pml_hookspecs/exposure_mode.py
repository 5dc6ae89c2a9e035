"""Exposure modes: which tools a client sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from .types import Catalog, CatalogEntry, Session, ToolId


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
    the same order. MCP requires lists to be stable, and the gateway caches on it. One that depends on something else,
    such as the time or what was called, says so when that changes, by ``Services.lists_changed``. A mode does not
    fetch, rename or check permissions: the gateway renders names, and ``pml_filter_tools`` removes what the session may
    not have. Hidden is not forbidden: a tool that a mode did not list can still be called.

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


ToolFilter: TypeAlias = Callable[["CatalogEntry", "Session"], bool]
"""Drops tools a session must not have: True keeps the tool, False, or whatever else, drops it. Can only remove.

A plain function, or an object that can be called: an async one, or a generator, keeps the gateway from starting. Must
not block: runs once per tool per listing and once per call.

One may have a member ``shared: bool``, True while it keeps the same for every session; without it, it may differ.
One may have a member ``hides: bool``, True where not even that there is such a tool may be told: a call of what it
drops is answered as that of a tool that nobody has. Without it, the call is told that the plugin refused it, and so
it is of the gateway's own tools, whose names are no secret.
One may have a method ``why(entry, session) -> str``, which says in a few words for operators why it drops what it
drops, such as ``blacklisted_tools has it``. It is asked of nothing else. Without it, only the plugin is told.
"""
