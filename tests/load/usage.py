"""What processes use while something is measured: processor time by part, and memory over time."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import statistics
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from clients import LoadError
from processes import cpu_s, resident_mb

SAMPLE_S = 1.0
WARM = 0.2
"""Part of a run after which memory should have found its level."""
RESTING_S = 0.02
"""Processor time in a second, for each process, below which it rests [s]."""
PATIENCE_S = 60.0
Times = Mapping[str, Mapping[int, float]]


def times(parts: Mapping[str, Iterable[int]]) -> Times:
    """Processor time so far of each process of each part [s]."""
    found: dict[str, dict[int, float]] = {}
    for part, pids in parts.items():
        found[part] = {}
        for pid in pids:
            with contextlib.suppress(OSError):  # it has ended
                found[part][pid] = cpu_s([pid])
    return found


def used_s(before: Times, after: Times) -> dict[str, float]:
    """Processor time of each part in between [s]."""
    return {part: sum(now - before[part].get(pid, 0.0) for pid, now in pids.items()) for part, pids in after.items()}


async def rest(pids: list[int]) -> None:
    """Wait until processes rest: what is written behind the answers belongs to these."""
    end, before = time.monotonic() + PATIENCE_S, cpu_s(pids)
    while time.monotonic() < end:
        await asyncio.sleep(1.0)
        now = cpu_s(pids)
        if now - before <= RESTING_S * len(pids):
            return
        before = now


class Memory:
    """Resident memory of processes, looked at each second."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self.samples: list[tuple[float, float]] = []
        """When, from the beginning on [s], and how much [MB]."""

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Look at it as long as the block lasts."""
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _watch(self) -> None:
        start = time.monotonic()
        while True:
            self.samples.append((time.monotonic() - start, resident_mb(self._pids)))
            await asyncio.sleep(SAMPLE_S)

    def slope_kb_per_s(self) -> float:
        """By how much it grew, once it was warm [kB/s]; 0 when there are too few samples to say."""
        warm = self.samples[int(len(self.samples) * WARM) :]
        if len(warm) < 3:
            return 0.0
        return statistics.linear_regression(*zip(*warm, strict=True)).slope * 1000


def raise_limit(needed: int) -> None:
    """See that this process and those it starts may have so many files open.

    Raises:
        LoadError: They may not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if needed <= soft:
        return
    if needed > hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, needed))
            return
        raise LoadError(f"{needed} open files are needed for one process, and {hard} allowed: raise `ulimit -Hn`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
