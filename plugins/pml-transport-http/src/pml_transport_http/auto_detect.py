"""For servers of which it is not known what they speak: streamable HTTP, or else HTTP+SSE."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pml_hookspecs import RpcError, TransportError

from .errors import RefusedError
from .event_link import EventLink
from .streamable import StreamableLink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pml_hookspecs import Handler, RawObject

    from .connection import Connection
    from .options import Target
    from .settings import Settings

SPEAKS_SOMETHING_ELSE = (404, 405)


class AutoDetectLink:
    """A :class:`pml_hookspecs.Link` that becomes one of the two kinds with its first request."""

    def __init__(self, target: Target, connection: Connection, handler: Handler, settings: Settings, log: Any) -> None:
        """Make one; nothing is sent."""
        self._parts = (target, connection, handler, settings, log)
        self._link: StreamableLink | EventLink = StreamableLink(*self._parts)
        self._deciding = asyncio.Lock()
        self._decided = asyncio.Event()

    @property
    def counters(self) -> dict[str, int]:
        """What was dropped or skipped."""
        return self._link.counters

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self._link.ended

    async def open(self) -> None:
        """Nothing to do before the first request."""

    async def request(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        """Send a request and wait for its answer, as :class:`pml_hookspecs.Link` says."""
        if self._decided.is_set():
            return await self._link.request(method, params, timeout_s=timeout_s)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        try:
            async with asyncio.timeout(timeout_s), self._deciding:
                if not self._decided.is_set():
                    return await self._first(method, params, timeout_s=2 * timeout_s)
        except TimeoutError:
            name, limit = self._parts[0].peer, f"{timeout_s:g} s"
            raise TimeoutError(f"{name} did not answer {method} within {limit}") from None
        return await self._link.request(method, params, timeout_s=max(deadline - loop.time(), 0.001))

    async def _first(self, method: str, params: Mapping[str, Any], *, timeout_s: float) -> RawObject:
        try:
            result = await self._link.request(method, params, timeout_s=timeout_s)
        except RpcError:
            self._decided.set()
            raise
        except RefusedError as refusal:
            if refusal.status not in SPEAKS_SOMETHING_ELSE:
                raise
            await self._switch(refusal)
            return await self._link.request(method, params, timeout_s=timeout_s)
        self._decided.set()
        return result

    async def _switch(self, refusal: RefusedError) -> None:
        link = EventLink(*self._parts)
        try:
            await link.open()
        except TransportError as error:
            raise TransportError(f"{refusal}; and as for HTTP+SSE: {error}", retryable=False) from error
        self._link = link
        self._decided.set()

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification, as :class:`pml_hookspecs.Link` says."""
        self._link.notify(method, params)

    def end(self, error: TransportError | None) -> None:
        """The link is over; None when this end wanted it so."""
        self._link.end(error)

    async def join(self, limit_s: float) -> None:
        """Wait until what :meth:`end` cancelled is done."""
        await self._link.join(limit_s)

    async def end_session(self) -> None:
        """Tell the server that the session is over."""
        await self._link.end_session()
