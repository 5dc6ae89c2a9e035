"""A server's resources, templates and prompts over one connection: read once, and again when they may have changed."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from pml_catalog.listing import LISTINGS, Kind, every_item
from pml_catalog.paging import ServerList
from pml_hookspecs import RawObject, RpcError, TransportError
from pml_kit.mcp.protocol import LIST_CHANGED

WAIT_S = 2.0
"""Longest that a list waits for a server that is starting; who asked is told when it has come up [s]."""
GLANCE_S = 1.0
"""Longest that a request waits for a list that is only read to see whether it is still the same, from when that began;
who was shown the old one is told [s]."""
CHANGED: Mapping[Kind, str] = {
    kind: LIST_CHANGED[LISTINGS[kind].capability] for kind in ("resources", "templates", "prompts")
}
Items: TypeAlias = "ServerList[dict[str, Any]]"
Reading: TypeAlias = "asyncio.Task[Items]"


class ListedConnection(Protocol):
    """The connection whose lists they are."""

    @property
    def name(self) -> str:
        """The server's."""
        ...

    @property
    def known(self) -> bool:
        """Whether it has ever introduced itself."""
        ...

    @property
    def connected(self) -> bool:
        """Whether requests can be sent right now."""
        ...

    @property
    def asleep(self) -> bool:
        """Whether it was stopped for want of use, or not started yet."""
        ...

    def offers(self, capability: str) -> bool:
        """Whether the server declared ``capability``."""
        ...

    async def settled(self, within_s: float) -> None:
        """Wait for a connection that is being opened."""
        ...

    def send(self, method: str, params: RawObject, limit_s: float, *, hands_on: bool) -> Awaitable[RawObject]:
        """Send a request; raises as :class:`pml_hookspecs.Link` says."""
        ...


class FeatureLists:
    """Keeps what was read until the server says that it changed, also while it is stopped for want of use."""

    def __init__(
        self, connection: ListedConnection, limit_s: float, changed: Callable[[Iterable[str]], None], log: Any
    ) -> None:
        """``changed`` is given the notifications that clients are to get."""
        self._connection, self._limit_s, self._changed, self._log = connection, limit_s, changed, log
        self._readings: dict[Kind, Reading] = {}
        self._again: dict[Kind, asyncio.Task[None]] = {}
        """FeatureLists that are being read again, or were, to see whether they are still the same."""
        self._began_s: dict[Kind, float] = {}
        """When the last reading of each began, on the loop's clock [s]."""
        self._missed: set[Kind] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def get(
        self, kind: Kind, wait_s: float = WAIT_S, max_age_s: float | None = None, *, undeclared: bool = False
    ) -> Items:
        """The list; empty when the server has none, or cannot be asked; one that is starting is given ``wait_s``.

        One that was read ``max_age_s`` ago is read again, which is waited for for a moment; None: whatever its age [s].
        With ``undeclared``, or once that was said, a server is asked that does not say that it has any.

        Raises:
            TimeoutError, TransportError, RpcError: As :class:`pml_hookspecs.Link` says.
        """
        connection = self._connection
        await connection.settled(wait_s)
        if not connection.known or not (connection.connected or connection.asleep):
            self._missed.add(kind)
            return ServerList()
        reading = self._readings.get(kind)
        if reading is None and not undeclared and not connection.offers(LISTINGS[kind].capability):
            return ServerList()
        if reading is None or (reading.done() and (reading.cancelled() or reading.exception() is not None)):
            reading = self._readings[kind] = self._begin_reading(kind)
        elif max_age_s is not None and reading.done():
            await self._look_again(kind, reading, max_age_s)
            reading = self._readings.get(kind, reading)
        return await asyncio.shield(reading)

    def _begin_reading(self, kind: Kind) -> Reading:
        self._began_s[kind] = asyncio.get_running_loop().time()
        return self._begin(self._read(kind))

    async def _look_again(self, kind: Kind, before: Reading, max_age_s: float) -> None:
        """Read a list again that is so old, unless it is being done, and wait a moment for that."""
        now_s, again = asyncio.get_running_loop().time(), self._again.get(kind)
        if again is None or again.done():
            if not self._connection.connected or now_s - self._began_s[kind] < max_age_s:
                return
            again = self._again[kind] = self._begin(self._replace(kind, before))
            self._began_s[kind] = now_s
        await asyncio.wait((again,), timeout=max(0.0, self._began_s[kind] + GLANCE_S - now_s))

    async def _replace(self, kind: Kind, before: Reading) -> None:
        now = self._begin_reading(kind)
        try:
            items = await now
        except (RpcError, TransportError, TimeoutError) as exc:
            self._log.info("a list could not be read again", list=kind, reason=str(exc))
            return
        if self._readings.get(kind) is before:  # else it was said meanwhile that it has changed
            self._readings[kind] = now
            if items != before.result():
                self._changed({CHANGED[kind]})

    async def _read(self, kind: Kind) -> Items:
        async def ask(method: str, params: RawObject) -> RawObject:
            return await self._connection.send(method, params, self._limit_s, hands_on=False)

        listing = LISTINGS[kind]
        items = await every_item(ask, listing.method, listing.member, self._log)
        places = [place for place, item in enumerate(items) if isinstance(item.get(listing.key), str)]
        return ServerList.of((items[place] for place in places), items, places)

    def heard(self, method: str) -> None:
        """The server says that a list changed."""
        for kind, said in CHANGED.items():
            if said == method:
                self._readings.pop(kind, None)

    def renew(self) -> None:
        """There is a new connection: what was read before may be old, and what could not be read can be now."""
        missed, self._missed = self._missed, set()
        known, self._readings = self._readings, {}
        self._changed({CHANGED[kind] for kind in missed if self._connection.offers(LISTINGS[kind].capability)})
        for kind, reading in known.items():
            if reading.done() and not reading.cancelled() and reading.exception() is None:
                self._begin(self._compare(kind, reading.result()))

    async def _compare(self, kind: Kind, before: Items) -> None:
        try:
            now = await self.get(kind)
        except (RpcError, TransportError, TimeoutError):
            return  # whoever asks for the list is told
        if now != before:
            self._changed({CHANGED[kind]})

    def _begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        # Not in the context of the client that asks first: the list is for all.
        task = asyncio.get_running_loop().create_task(
            work, name=f"lists:{self._connection.name}", context=contextvars.Context()
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Nobody reads any more."""
        for task in self._tasks:
            task.cancel()
