"""The clocks that schedules go by."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time, and lets it pass."""

    def now(self) -> datetime:
        """UTC; may be put forward and back."""
        ...

    def elapsed_s(self) -> float:
        """Time since whenever; never goes back [s]."""
        ...

    async def sleep(self, duration_s: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        """UTC."""
        return datetime.now(UTC)

    def elapsed_s(self) -> float:
        """Does not count while the machine is suspended, on Linux."""
        return time.monotonic()

    async def sleep(self, duration_s: float) -> None:
        """Wait."""
        await asyncio.sleep(duration_s)
