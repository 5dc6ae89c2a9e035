"""How much a program does, counted instead of timed: the same on an idle machine and on a busy one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

SPAWNED = "spawned "
"""Begins the names of tasks that a plugin began by its services."""


@dataclass
class Work:
    """What :func:`counted` counts."""

    calls: int = 0
    """Calls of functions, those written in C included, and of coroutines and generators each time that they go on."""


class TooMuchWork(BaseException):
    """Ends whoever does more than :func:`counted` lets pass; no plugin takes it for a mistake of its own."""


@contextmanager
def counted(most: int | None = None) -> Iterator[Work]:
    """Count what this thread does inside, whoever has it done.

    With ``most``, whoever makes more calls is ended by :class:`TooMuchWork`.

    For tests that something is not done over and over, or not more often the more there is. Interpreters differ by
    some tenths. How long it takes is for a benchmark to say.
    """
    work, before = Work(), sys.getprofile()

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        work.calls += event in ("call", "c_call")
        if most is not None and work.calls > most:
            raise TooMuchWork(f"more than {most} calls")

    sys.setprofile(note)
    try:
        yield work
    finally:
        sys.setprofile(before)


async def left_over(before: Collection[asyncio.Task[Any]]) -> list[str]:
    """What goes on in tasks that were not there before, once all that only wants its turn has had it.

    What was begun by :meth:`FakeServices.spawn`, as the gateway cancels it when the plugin goes, is none of that.
    """
    for _ in range(20):
        await asyncio.sleep(0)
    known = {*before, asyncio.current_task()}
    left = [task for task in asyncio.all_tasks() if task not in known]
    return [f"{task.get_coro()!r:.200}" for task in left if not task.get_name().startswith(SPAWNED)]
