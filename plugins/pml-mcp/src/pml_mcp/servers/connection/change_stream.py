"""One ``subscriptions/listen`` stream to a modern server (MCP 2026-07-28): what others tell unasked."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from pml_hookspecs import EMPTY, Link, RawObject, RpcError, TransportError
from pml_kit.json_members import with_meta
from pml_kit.mcp.protocol import LIST_CHANGED

from .calls import FOREVER_S
from .eras import Offer, envelope

AGAIN_S = 1.0
"""Pause before a stream that ended is opened again [s]."""


class Listener(Protocol):
    """The connection whose stream it is."""

    @property
    def name(self) -> str:
        """The server's."""
        ...

    @property
    def offer(self) -> Offer:
        """What it said when the connection began."""
        ...

    def notification(self, method: str, params: RawObject) -> None:
        """Hear what the server did not tell."""
        ...


class ChangeStream:
    """Keeps the stream open while the server has anything to tell."""

    def __init__(self, connection: Listener, log: Any) -> None:
        self._connection, self._log = connection, log
        self._uris: set[str] = set()
        self._link: Link | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, link: Link) -> None:
        """Listen on a new connection."""
        self._link = link
        self._open()

    async def stop(self) -> None:
        """The connection is over."""
        self._link = None
        task, self._task = self._task, None
        await _ended(task)

    async def add(self, uri: str) -> None:
        """Hear of changes of one more resource."""
        self._uris.add(uri)
        await self._again()

    async def remove(self, uri: str) -> None:
        """Hear no more of a resource."""
        self._uris.discard(uri)
        await self._again()

    async def _again(self) -> None:
        old, self._task = self._task, None
        self._open()
        await asyncio.sleep(0)  # the new stream is asked for before the old one is given up: nothing is missed
        await _ended(old)

    def wanted(self) -> dict[str, Any]:
        """What to listen for; empty when the server tells nothing."""
        offered = self._connection.offer.capabilities
        wanted: dict[str, Any] = {}
        for kind in LIST_CHANGED:
            capability = offered.get(kind)
            if isinstance(capability, dict) and capability.get("listChanged"):
                wanted[f"{kind}ListChanged"] = True
        if self._uris:
            wanted["resourceSubscriptions"] = sorted(self._uris)
        return wanted

    def _open(self) -> None:
        if self._link is not None and self.wanted():
            name = f"listen:{self._connection.name}"
            self._task = asyncio.get_running_loop().create_task(self._keep(self._link), name=name)

    async def _keep(self, link: Link) -> None:
        while True:
            params = with_meta(
                RawObject.of({"notifications": self.wanted()}), envelope(None, {}, self._connection.offer.info)
            )
            try:
                await link.request("subscriptions/listen", params, timeout_s=FOREVER_S)
            except RpcError as exc:
                self._log.info("the server tells of no changes", reason=exc.message)
                return
            except (TransportError, TimeoutError) as exc:
                self._log.debug("the stream of changes ended", reason=str(exc))
            await asyncio.sleep(AGAIN_S)
            # What changed meanwhile was told to nobody.
            for kind in LIST_CHANGED:
                if f"{kind}ListChanged" in self.wanted():
                    self._connection.notification(LIST_CHANGED[kind], EMPTY)


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
