"""A server's resources, templates and prompts over one connection: read once, and again when they may have changed."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pml_core.features import LISTINGS, Kind
from pml_core.listing import every_item
from pml_hookspecs import RawObject, RpcError, TransportError

if TYPE_CHECKING:
    from .instance import Instance

WAIT_S = 2.0
"""Longest that a list waits for a server that is starting; who asked is told when it has come up [s]."""
CHANGED: Mapping[Kind, str] = {
    "resources": "notifications/resources/list_changed",
    "templates": "notifications/resources/list_changed",
    "prompts": "notifications/prompts/list_changed",
}


class Lists:
    """Keeps what was read until the server says that it changed, also while it is stopped for want of use."""

    def __init__(self, instance: Instance, limit_s: float, changed: Callable[[Iterable[str]], None], log: Any) -> None:
        """``changed`` is given the notifications that clients are to get."""
        self._instance, self._limit_s, self._changed, self._log = instance, limit_s, changed, log
        self._readings: dict[Kind, asyncio.Task[list[dict[str, Any]]]] = {}
        self._missed: set[Kind] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def get(self, kind: Kind, wait_s: float = WAIT_S) -> list[dict[str, Any]]:
        """The list; empty when the server has none, or cannot be asked; one that is starting is given ``wait_s``.

        Raises:
            TimeoutError, TransportError, RpcError: As :class:`pml_hookspecs.Link` says.
        """
        instance = self._instance
        await instance.settled(wait_s)
        if not instance.known or not (instance.connected or instance.asleep):
            self._missed.add(kind)
            return []
        if not instance.offers(LISTINGS[kind].capability):
            return []
        reading = self._readings.get(kind)
        if reading is None or (reading.done() and (reading.cancelled() or reading.exception() is not None)):
            reading = self._readings[kind] = self._begin(self._read(kind))
        return await asyncio.shield(reading)

    async def _read(self, kind: Kind) -> list[dict[str, Any]]:
        async def ask(method: str, params: RawObject) -> RawObject:
            return await self._instance.send(method, params, self._limit_s, hands_on=False)

        listing = LISTINGS[kind]
        items = await every_item(ask, listing.method, listing.member, self._log)
        return [i for i in items if isinstance(i.get(listing.key), str)]

    def heard(self, method: str) -> None:
        """The server says that a list changed."""
        for kind, said in CHANGED.items():
            if said == method:
                self._readings.pop(kind, None)

    def renew(self) -> None:
        """There is a new connection: what was read before may be old, and what could not be read can be now."""
        missed, self._missed = self._missed, set()
        known, self._readings = self._readings, {}
        self._changed({CHANGED[kind] for kind in missed if self._instance.offers(LISTINGS[kind].capability)})
        for kind, reading in known.items():
            if reading.done() and not reading.cancelled() and reading.exception() is None:
                self._begin(self._compare(kind, reading.result()))

    async def _compare(self, kind: Kind, before: list[dict[str, Any]]) -> None:
        try:
            now = await self.get(kind)
        except (RpcError, TransportError, TimeoutError):
            return  # whoever asks for the list is told
        if now != before:
            self._changed({CHANGED[kind]})

    def _begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        # Not in the context of the client that asks first: the list is for all.
        task = asyncio.get_running_loop().create_task(
            work, name=f"lists:{self._instance.name}", context=contextvars.Context()
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """Nobody reads any more."""
        for task in self._tasks:
            task.cancel()
