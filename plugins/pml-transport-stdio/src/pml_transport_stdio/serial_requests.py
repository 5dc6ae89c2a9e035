"""The fallback for servers that cannot work on several requests at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ABANDONED_S = 10.0
"""How long a server may go on with a request that nobody wants any more. It is not asked to say when it stops: MCP lets
it leave the answer out [s]."""


class SerialRequests:
    """Lets one request of ours be on its way at a time; the others wait in order."""

    def __init__(self, write: Callable[[tuple[bytes, ...]], None], stuck: Callable[[str], None]) -> None:
        """Send with ``write`` what has its turn; call ``stuck`` with what is wrong when a turn does not end."""
        self._write, self._stuck = write, stuck
        self._active: int | None = None
        self._waiting: dict[int, tuple[bytes, ...]] = {}
        self._abandoned: asyncio.TimerHandle | None = None

    def submit(self, key: int, chunks: tuple[bytes, ...]) -> None:
        """Send a request now, or in its turn."""
        self._waiting[key] = chunks
        self._next()

    def sent(self, key: int) -> bool:
        """Whether a request has had its turn."""
        return key not in self._waiting

    def abandon(self, key: int) -> None:
        """Nobody wants an answer any more. Of a request that was sent, the turn ends when the server has answered."""
        if key != self._active:
            self.leave(key)
        elif self._abandoned is None:
            self._abandoned = asyncio.get_running_loop().call_later(ABANDONED_S, self._give_up)

    def leave(self, key: int) -> None:
        """A request is over."""
        self._waiting.pop(key, None)
        if key == self._active:
            self._end_turn()
            self._next()

    def clear(self) -> None:
        """All requests are over."""
        self._end_turn()
        self._waiting.clear()

    def _end_turn(self) -> None:
        self._active = None
        if self._abandoned is not None:
            self._abandoned.cancel()
            self._abandoned = None

    def _give_up(self) -> None:
        self._stuck(
            f"did not say within {ABANDONED_S:g} s that it stopped working on a request that was cancelled, and may "
            "not have another (allow_concurrent_requests is off); it is started again"
        )

    def _next(self) -> None:
        if self._active is None and self._waiting:
            self._active = next(iter(self._waiting))
            self._write(self._waiting.pop(self._active))
