"""Processes that record into a store and are killed at a random moment, and what they had said by then.

The recorder is a script that opens a store and awaits :func:`record_until_killed`; :class:`Killed` runs it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pml_hookspecs import ExecutionQuery, Scope

from .records import execution

if TYPE_CHECKING:
    import random

    from pml_hookspecs import Store

TICK_S = 0.005
EVERYTHING = ExecutionQuery(scope=Scope(principals=None))
DURABLE_S = 0.1
"""So long may what nobody waits for be lost [s]."""
LATELY_S = 0.2
LONGEST_S = 0.3
START_S = 30.0


async def record_until_killed(store: Store, first: int, per_s: int, *, reading: bool) -> None:
    """Record executions from number ``first`` on, and say so on standard output.

    Each line is ``r N TIME`` for what was handed over, ``p N TIME`` for what was put and is durable, or ``s SECONDS
    TIME`` for how late the machine let this process go on. Times are of the clock that all processes share.

    Args:
        store: Opened.
        first: The number before the first one.
        per_s: How many a second.
        reading: Whether lists are asked for all the time, for which a batch may stand still. Otherwise some executions
            are put, for which none does.
    """
    lines, n = list[str](), first

    async def put() -> None:
        nonlocal n
        while True:
            n += 1
            mine = n
            await store.executions.put(execution(mine, intent="put"))
            os.write(1, f"p {mine} {time.monotonic()}\n".encode())
            await asyncio.sleep(TICK_S)

    async def read() -> None:
        while True:
            await store.executions.find(EVERYTHING)

    other = asyncio.create_task(read() if reading else put())
    began, done = time.monotonic(), 0
    while not other.done():
        expected = time.monotonic() + TICK_S
        due = int((time.monotonic() - began) * per_s)
        for _ in range(done, due):
            n += 1
            store.executions.record(execution(n, response={"text": f"number {n}"}))
            lines.append(f"r {n} {time.monotonic()}\n")
        done = due
        os.write(1, "".join(lines).encode())
        lines.clear()
        await asyncio.sleep(TICK_S)
        lines.append(f"s {time.monotonic() - expected} {time.monotonic()}\n")
    other.result()


class Killed:
    """One process that recorded, and was killed at a random moment."""

    put: list[int]
    """What was durable."""
    old: list[int]
    """What was recorded long enough before the end to be kept."""
    last: int
    """The greatest number."""
    problem: str
    """What it said on standard error."""

    def __init__(self, command: Sequence[str], first: int, chance: random.Random, *, reading: bool) -> None:
        """Run ``command``, which records from ``first`` on, and kill it soon after it has begun."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = threading.Timer(START_S, process.kill)
        deadline.start()
        try:
            with process:
                assert process.stdout is not None
                assert process.stderr is not None
                begun = process.stdout.readline()
                threading.Timer(chance.uniform(0, LONGEST_S), process.kill).start()
                raw = begun + process.stdout.read()
                self.problem = process.stderr.read().decode()
        finally:
            deadline.cancel()
        lines = [line.decode().split() for line in raw.splitlines(keepends=True) if line.endswith(b"\n")]
        self.put = [int(line[1]) for line in lines if line[0] == "p"]
        recorded = [(int(line[1]), float(line[2])) for line in lines if line[0] == "r"]
        ends = [float(line[2]) for line in lines if line[0] != "s"]
        # What a machine with more to do than it can takes from the writing thread, it takes from this one as well: at
        # once, or little by little where it reads without a pause, and the writer has half as much as this one at best.
        late = [(float(line[1]), float(line[2])) for line in lines if line[0] == "s"]
        at_once_s = max([late_s for late_s, _ in late], default=0.0)
        of_late_s = sum(late_s for late_s, at in late if reading and ends and at > ends[-1] - LATELY_S)
        durable_s = DURABLE_S + max(4 * at_once_s, 2 * of_late_s)
        self.old = [n for n, at in recorded if ends and at < ends[-1] - durable_s]
        self.last = max([n for n, _ in recorded] + self.put, default=first)
