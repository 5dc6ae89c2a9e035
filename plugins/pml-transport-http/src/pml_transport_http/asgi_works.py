"""All requests that are being answered, for the end of the listener."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pml_hookspecs.protocol import INTERNAL_ERROR

from .asgi_exchange import STOPPING
from .asgi_replies import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .asgi_exchange import Work

LASTING = "subscriptions/listen"
"""A request that is never answered: nobody waits for its end."""
LAST_WORDS_S = 1.0
"""Time that handlers get to end once they are called off."""


class Works:
    """Counts them; once it closes no more come."""

    def __init__(self) -> None:
        self._works: set[Work] = set()
        self._closing = False
        self._settled = asyncio.Event()

    def check_open(self, id: Any) -> None:
        """See that a request can still be served.

        Raises:
            Refusal: The gateway is stopping; with status 503.
        """
        if self._closing:
            headers = [(b"retry-after", b"1"), (b"connection", b"close")]
            raise Refusal(503, INTERNAL_ERROR, STOPPING.message, id=id, headers=headers)

    @contextmanager
    def track(self, work: Work) -> Iterator[None]:
        """Count a request while it is being answered.

        Raises:
            Refusal: The gateway is stopping.
        """
        self.check_open(work.key)
        self._works.add(work)
        try:
            yield
        finally:
            self._works.discard(work)
            if self._closing and self._idle():
                self._settled.set()

    def _idle(self) -> bool:
        return all(work.method == LASTING for work in self._works)

    async def drain(self, limit_s: float) -> None:
        """Let no more come, wait for those there are, and call off the rest."""
        self._closing = True
        for work in tuple(self._works):
            if work.method == LASTING:
                work.call_off(STOPPING)
        await self._wait(limit_s)
        for work in tuple(self._works):
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
