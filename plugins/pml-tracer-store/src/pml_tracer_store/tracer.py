"""Buffers finished spans and hands them to the store in the background."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Self

from pml_hookspecs import setting

if TYPE_CHECKING:
    import asyncio

    from pml_hookspecs import Ended, Services, Span

BATCH = 1000
"""Most spans handed to the store at once."""

SILENCE_S = 60.0
"""A trouble that lasts is heard of once in this time."""

NOT_JSON = (TypeError, ValueError, OverflowError)
"""What stands against a span itself, so that trying again cannot help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What ``[plugins.store]`` may say."""

    buffer_spans: int = setting(
        50_000, "Most finished spans to hold in memory until the store takes them; more are dropped.", ge=1
    )
    interval_ms: int = setting(250, "How long finished spans are gathered before they go to the store [ms].", ge=1)


class StoreTracer:
    """Implements :class:`pml_hookspecs.Tracer`: every finished span goes to ``services.store.traces``.

    Nothing is lost while the store is out of order for a time and the buffer has room: spans stay until it has them.
    """

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Without ``services`` spans only fill the buffer."""
        settings = settings or Settings()
        self._services = services
        self._limit = settings.buffer_spans
        self._interval_s = settings.interval_ms / 1000
        self._buffer: deque[Ended] = deque()
        self._some: asyncio.Event | None = None
        self._one_at_a_time: asyncio.Lock | None = None
        self._last_heard: dict[str, float] = {}
        self.dropped = 0
        """Spans that a full buffer or the store did not take."""

    async def __aenter__(self) -> Self:
        import asyncio

        self._some = asyncio.Event()
        if self._buffer:
            self._some.set()
        if self._services is not None:
            self._services.spawn(self._drain, self._some, name="spans")
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._some = None
        await self.flush()

    def started(self, span: Span) -> None:
        """Nothing to do: a span is kept when it is finished."""

    def ended(self, ended: Ended) -> None:
        """Buffer ``ended``."""
        if len(self._buffer) >= self._limit:
            self.dropped += 1
            return
        self._buffer.append(ended)
        if self._some is not None and not self._some.is_set():
            self._some.set()

    async def flush(self) -> None:
        """Hand over what is buffered. What the store does not take stays buffered, and the log says so."""
        import asyncio

        if self._one_at_a_time is None:
            self._one_at_a_time = asyncio.Lock()
        async with self._one_at_a_time:
            while self._buffer and await self._deliver(list(islice(self._buffer, BATCH))):
                pass

    async def _deliver(self, batch: list[Ended]) -> bool:
        """Whether the store has taken ``batch``; spans that are not JSON are dropped from it."""
        if self._services is None:
            return False
        try:
            await self._services.store.traces.append(batch)
        except NOT_JSON as exc:
            if len(batch) > 1:
                return await self._deliver_singly(batch)
            self.dropped += 1
            self._say("a span cannot be stored", exc)
        except Exception as exc:
            self._say("the store takes no spans", exc)
            return False
        # Only now: a cancelled or failed delivery leaves them to the next, and the store knows those it has.
        for _ in batch:
            self._buffer.popleft()
        return True

    async def _deliver_singly(self, batch: list[Ended]) -> bool:
        for ended in batch:
            if not await self._deliver([ended]):
                return False
        return True

    def _say(self, event: str, exc: Exception) -> None:
        now = time.monotonic()
        if self._services is not None and now - self._last_heard.get(event, -SILENCE_S) >= SILENCE_S:
            self._last_heard[event] = now
            more = {"waiting": len(self._buffer), "dropped": self.dropped, "silent_for_s": SILENCE_S}
            self._services.log.error(event, error=repr(exc), **more)

    async def _drain(self, some: asyncio.Event) -> None:
        import asyncio

        while True:
            await some.wait()
            await asyncio.sleep(self._interval_s)
            some.clear()
            await self.flush()
            if self._buffer:
                some.set()
