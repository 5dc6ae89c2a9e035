"""What the catalog asks of whoever keeps it. The gateway's own objects are of these shapes without knowing of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from pml_hookspecs import CatalogEntry, Session


class ServerSource(Protocol):
    """What a server is started from, or where it is: a part of who it is."""

    @property
    def command(self) -> str:
        """Program; empty where none is started."""
        ...

    @property
    def args(self) -> Sequence[str]:
        """Its arguments."""
        ...

    @property
    def url(self) -> str:
        """Empty where it is not reached by one."""
        ...

    @property
    def address(self) -> str:
        """Of a transport of its own, ``<scheme>:<rest>``; empty where there is none."""
        ...

    @property
    def cwd(self) -> str | None:
        """Working directory of the program; None for the gateway's."""
        ...


class SessionFilters(Protocol):
    """Who may have which tool."""

    @property
    def shared(self) -> bool:
        """Whether they keep the same for every session."""
        ...

    def refusing(self, entry: CatalogEntry, session: Session) -> str | None:
        """Who drops ``entry`` for ``session``; None where it is kept."""
        ...

    def why(self, entry: CatalogEntry, session: Session) -> str:
        """Who drops it, and why as far as they say; ``""`` where it is kept."""
        ...


class RehearsalLocks(Protocol):
    """What lets a session only rehearse."""

    def locks(self, session: Session) -> Sequence[str]:
        """Names of the locks; ``key`` is the session's own. Empty where nothing is locked."""
        ...

    def listed(self, definition: Mapping[str, Any], session: Session) -> Mapping[str, Any]:
        """The definition of one of the gateway's own tools, which says so under a lock."""
        ...


class Drivers(Protocol):
    """What is installed, by kind and name."""

    def installed(self, kind: str) -> Sequence[str]:
        """Names of what can be used of a kind."""
        ...

    def driver(self, kind: str, name: str) -> Any:
        """A driver with its settings, not entered.

        Raises:
            Exception: It cannot be used; the message says why and what to do.
        """
        ...


class Lifetimes(Protocol):
    """Enters and leaves drivers, with the background tasks that they begin."""

    async def enter(self, plugin: str, thing: Any, *, required: bool) -> bool:
        """Enter a driver; whether it is up.

        Raises:
            Exception: It cannot be entered, and is required.
        """
        ...

    async def leave(self, thing: Any, tasks: AbstractSet[asyncio.Task[None]]) -> None:
        """Leave a driver, and end these tasks."""
        ...

    def running(self, plugin: str) -> AbstractSet[asyncio.Task[None]]:
        """The background tasks of a plugin as of now."""
        ...


class Guard(Protocol):
    """Says which tools of a server may be had, by what people took of them: :class:`pml_catalog.lock.guard.Guard`."""

    @property
    def changes(self) -> Mapping[str, Any]:
        """By tool, what is otherwise than was taken, or new."""
        ...

    def news(self) -> Sequence[Any]:
        """Of these, what was found since this was asked last."""
        ...

    def judge(self, listed: Iterable[CatalogEntry], shown: Iterable[CatalogEntry], /) -> list[CatalogEntry]:
        """Note what is otherwise of all that is listed; of what would be shown, what may be."""
        ...

    def allowed(self, entries: Iterable[CatalogEntry], /) -> list[CatalogEntry]:
        """What may be shown."""
        ...

    def blocks(self, entry: CatalogEntry, /) -> bool:
        """Whether a tool, as it is listed, is not called."""
        ...

    def check(self, tool: str, /) -> None:
        """See that a tool may be called.

        Raises:
            HeldError: It may not.
        """
        ...
