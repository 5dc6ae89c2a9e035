"""What a server says of itself when a connection begins, and who waits for that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pml_mcp.wire.self_description import SelfDescription


class Greeting:
    """Keeps what one server said last, in this run or before."""

    on_said: Callable[[], None] | None = None
    """Is told when it says something else than before."""

    def __init__(self, tried: Callable[[], Awaitable[object]]) -> None:
        """``tried`` waits for the server's first start to have ended, well or badly."""
        self._tried = tried
        self.words = SelfDescription()
        self.capabilities: Mapping[str, Any] | None = None
        """What it declared when it came up last in this run; None before."""
        self._heard = asyncio.Event()

    def hear(self, words: SelfDescription, capabilities: Mapping[str, Any]) -> None:
        """It has just said this."""
        changed, self.words, self.capabilities = words != self.words, words, capabilities
        self._heard.set()
        if changed and self.on_said is not None:
            self.on_said()

    async def heard(self, within_s: float) -> bool:
        """Wait until it has said something or its first start has failed; whether that came in time."""
        waiting = [asyncio.ensure_future(one) for one in (self._heard.wait(), self._tried())]
        try:
            done, _ = await asyncio.wait(waiting, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()
        return bool(done)
