"""How long a call may take, and a limit that can be stopped while a human thinks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Self


def timeout_s(configured_s: float, deadline: datetime | None) -> float:
    """Seconds left for a call: as configured, or less when the deadline is nearer; never below a millisecond."""
    if deadline is None:
        return configured_s
    return max(0.001, min(configured_s, (deadline - datetime.now(UTC)) / timedelta(seconds=1)))


class TimeLimit:
    """Ends the block with TimeoutError after ``limit_s`` seconds, those between stop and go_on not counted."""

    def __init__(self, limit_s: float, message: str, *, all_s: float | None = None) -> None:
        """``all_s`` is what :meth:`reset` gives, when that is not ``limit_s`` [s]."""
        self._all_s, self._message = limit_s if all_s is None else all_s, message
        self._timeout = asyncio.timeout(limit_s)
        self._left_s = limit_s
        self._stops = 0

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            await self._timeout.__aexit__(*exc)  # type: ignore[arg-type] # typed for the three it always gets
        except TimeoutError:
            raise TimeoutError(self._message) from None

    def stop(self) -> None:
        """Stop counting; may be called several times and then needs as many :meth:`go_on`."""
        self._stops += 1
        when = self._timeout.when()
        if self._stops == 1 and when is not None and not self._timeout.expired():
            self._left_s = when - asyncio.get_running_loop().time()
            self._timeout.reschedule(None)

    def go_on(self) -> None:
        """Count on from where it was stopped."""
        self._stops -= 1
        if self._stops == 0 and self._timeout.when() is None and not self._timeout.expired():
            try:
                self._timeout.reschedule(asyncio.get_running_loop().time() + self._left_s)
            except RuntimeError:  # the block has ended meanwhile
                return

    def reset(self) -> None:
        """Begin again with all of the time."""
        self._left_s = self._all_s
        if self._timeout.when() is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._all_s)
