"""All requests that are being answered, for the end of the listener."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pml_hookspecs.protocol import INTERNAL_ERROR

from .asgi_exchange import STOPPING
from .asgi_replies import HttpError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .asgi_exchange import ActiveRequest

SUBSCRIPTION = "subscriptions/listen"
"""A request that is never answered: nobody waits for its end."""
LAST_WORDS_S = 1.0
"""Time that handlers get to end once they are called off."""


class ActiveRequests:
    """Requests whose handlers are at work. Once it is being drained, further ones are refused."""

    def __init__(self) -> None:
        self._active_requests: set[ActiveRequest] = set()
        self._closing = False
        self._settled = asyncio.Event()

    def check_open(self, id: Any) -> None:
        """See that a request can still be served.

        Raises:
            HttpError: The gateway is stopping; with status 503.
        """
        if self._closing:
            headers = [(b"retry-after", b"1"), (b"connection", b"close")]
            raise HttpError(503, INTERNAL_ERROR, STOPPING.message, id=id, headers=headers)

    @contextmanager
    def track(self, work: ActiveRequest) -> Iterator[None]:
        """Count a request while it is being answered.

        Raises:
            HttpError: The gateway is stopping.
        """
        self.check_open(work.key)
        self._active_requests.add(work)
        try:
            yield
        finally:
            self._active_requests.discard(work)
            if self._closing and self._idle():
                self._settled.set()

    def _idle(self) -> bool:
        return all(work.method == SUBSCRIPTION for work in self._active_requests)

    async def drain(self, limit_s: float) -> None:
        """Let no more come, wait for those there are, and call off the rest."""
        self._closing = True
        for work in tuple(self._active_requests):
            if work.method == SUBSCRIPTION:
                work.call_off(STOPPING)
        await self._wait(limit_s)
        for work in tuple(self._active_requests):
            work.call_off(STOPPING)
        await self._wait(LAST_WORDS_S)

    async def _wait(self, limit_s: float) -> None:
        if self._idle():
            return
        self._settled.clear()
        try:
            async with asyncio.timeout(limit_s):
                await self._settled.wait()
        except TimeoutError:
            return
