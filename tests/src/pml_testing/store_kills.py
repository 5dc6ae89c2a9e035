"""Processes that record into a store and are killed at a random moment, and what they had said by then.

The recorder is a script that opens a store and awaits :func:`record_until_killed`; :class:`KilledRecorder` runs it.
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
SERVER_S = 0.02
"""So long a server that has a processor takes at most for what is written at once, with some to spare [s]."""
LONGEST_S = 0.3
START_S = 30.0


async def record_until_killed(
    store: Store, first: int, per_s: int, *, reading: bool, told: list[str] | None = None
) -> None:
    """Record executions from number ``first`` on, and say so on standard output.

    Each line is ``r N TIME`` for what was handed over, ``p N TIME`` for what was put and is durable, or ``s SECONDS
    TIME`` for how late the machine let this process go on, ``w TIME`` when something is sent to a server to be written,
    ``d TIME`` when that has answered. Times are of the clock that all processes share.

    Args:
        store: Opened.
        first: The number before the first one.
        per_s: How many a second.
        reading: Whether lists are asked for all the time. Otherwise some executions are put.
        told: Where another thread puts lines that begin with ``w`` or ``d``.
    """
    lines, n = [] if told is None else told, first

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
        ready = lines[:]
        os.write(1, "".join(ready).encode())
        # What another thread put there meanwhile stays.
        del lines[: len(ready)]
        await asyncio.sleep(TICK_S)
        lines.append(f"s {time.monotonic() - expected} {time.monotonic()}\n")
    other.result()


class KilledRecorder:
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
        end = max([float(line[2]) for line in lines if line[0] in "rp"], default=0.0)
        # What a machine with more to do than it can takes from the writing thread, it takes from this one as well: at
        # once, or little by little where it reads without a pause, and the writer has half as much as this one at best.
        late = [(float(line[1]), float(line[2])) for line in lines if line[0] == "s"]
        at_once_s = max([late_s for late_s, _ in late], default=0.0)
        of_late_s = sum(late_s for late_s, at in late if reading and at > end - LATELY_S)
        # A server, or the disk that a log is moved on, has its own time: what was recorded while a transaction began is
        # written by the next one, so it waits for two of them.
        sent = [float(line[1]) for line in lines if line[0] == "w"]
        answered = [float(line[1]) for line in lines if line[0] == "d"]
        took_s = [there - then for then, there in zip(sent, [*answered, end], strict=False)]
        server_s = max([0.0, *(each_s - SERVER_S for each_s in took_s)])
        durable_s = DURABLE_S + max(4 * at_once_s, 2 * of_late_s) + 2 * server_s
        self.old = [n for n, at in recorded if at < end - durable_s]
        self.last = max([n for n, _ in recorded] + self.put, default=first)
