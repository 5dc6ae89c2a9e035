"""For how long something of a plugin keeps everybody else waiting."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Generator
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

from pml_hookspecs import (
    CallNext,
    ExecutionQuery,
    Outcome,
    Scope,
    Session,
    Status,
    Store,
    Task,
    ToolCall,
    ToolId,
    Wrapper,
)

IMPORT_S = 0.5
"""An import that takes longer is told: every start waits for it [s]."""
CALL_S = 0.1
"""A wrapper that keeps the event loop longer is told: every call of everybody waits [s]."""
STORE_S = 1.0
"""The same of a store that is opened and read [s]."""
TRIES = 3
"""Measurements of what seems slow; the shortest counts."""
PROBE_S = 5.0
"""Longest that one call of a wrapper is waited for [s]."""
SECOND_IMPORT_S = 60.0
"""Longest that the second import is waited for; one that lasts so long is as slow as the first [s]."""
IMPORTED = """
import importlib, sys, time
import pml_hookspecs
def waited():
    try:
        return int(open("/proc/self/schedstat").read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
begun, before = time.perf_counter(), waited()
importlib.import_module(sys.argv[1])
print(time.perf_counter() - begun - (waited() - before))
"""
"""Says how long an import takes, without the time in which others had the processor."""
CALL = ToolCall(id="doctor", tool=ToolId("doctor:probe"))


class LoopTimer:
    """Awaits something, and knows for how long it kept the event loop at a time."""

    def __init__(self, awaitable: Awaitable[Any]) -> None:
        self._awaitable = awaitable
        self.longest_s = 0.0
        """The longest so far [s]."""

    def __await__(self) -> Generator[Any, Any, Any]:
        steps: Any = self._awaitable.__await__()
        step, given = steps.send, None
        while True:
            begun_s = time.perf_counter()
            try:
                waits_for = step(given)
            except StopIteration as done:
                return done.value
            finally:
                self.longest_s = max(self.longest_s, time.perf_counter() - begun_s)
            try:
                step, given = steps.send, (yield waits_for)
            except BaseException as exc:
                step, given = steps.throw, exc


async def _nothing(task: Any, _run: Any) -> Outcome:
    return Outcome(task_id=task.id, status=Status.SIMULATED, started_at=datetime.now(UTC), duration_ms=0)


def _rehearsal() -> Any:
    """A run in which nothing may have effects."""
    about = {"id": "doctor", "parent": None, "indirect": False, "session": Session(key="doctor"), "intent": ""}
    more = {"meta": {}, "dry_run": True, "reads_for_real": False, "deadline": None, "path": "doctor", "asked_s": 0.0}
    said = {
        "question": nullcontext,
        "durable": False,
        "wants_progress": False,
        "note": lambda **_: None,
        "progress": lambda *_, **__: None,
    }
    return SimpleNamespace(**about, **more, **said)


async def call_s(wrapper: Wrapper, task: Task = CALL, run: Any = None, call_next: CallNext = _nothing) -> float:
    """The longest time for which ``task`` keeps the event loop in ``wrapper``: the shortest of some tries [s].

    Args:
        wrapper: Whose time it is.
        task: A call of an unknown tool, unless it is said.
        run: A rehearsal, unless it is said.
        call_next: Answers at once, unless it is said.
    """
    shortest = float("inf")
    for _ in range(TRIES):
        begun_s = time.perf_counter()
        with suppress(Exception):  # there is no gateway around it: only how long it takes counts
            timer = LoopTimer(wrapper(task, run or _rehearsal(), call_next))
            called_s = time.perf_counter() - begun_s
            with suppress(Exception):
                async with asyncio.timeout(PROBE_S):
                    await timer
            shortest = min(shortest, max(called_s, timer.longest_s))
        if shortest <= CALL_S:
            break
    return shortest if shortest < float("inf") else time.perf_counter() - begun_s


async def read_s(store: Store) -> float:
    """The longest time for which reading a little of a store keeps the event loop [s]."""
    everything = ExecutionQuery(scope=Scope(principals=None), limit=1)
    longest_s = 0.0
    for reading in (store.executions.find(everything), store.documents.find("doctor"), store.health()):
        timer = LoopTimer(reading)
        with suppress(Exception):  # what fails is told by others
            await timer
        longest_s = max(longest_s, timer.longest_s)
    return longest_s


def import_s(entry_point: EntryPoint) -> float:
    """How long the import of what an entry point names takes [s]; 0 where it fails, which others tell.

    What seems slow is imported again, in a process of its own: the first time, it may have been compiled.
    """
    begun_s = time.perf_counter()
    try:
        entry_point.load()
    except (Exception, SystemExit):
        return 0.0
    took_s = time.perf_counter() - begun_s
    module = entry_point.value.partition(":")[0]
    if took_s <= IMPORT_S or module not in sys.modules:
        return took_s
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = (sys.executable, "-c", IMPORTED, module)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=SECOND_IMPORT_S,
        )
        return min(took_s, float(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, subprocess.TimeoutExpired):
        return took_s
