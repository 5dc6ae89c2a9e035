"""How much a program does, counted instead of timed: the same on an idle machine and on a busy one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass
class Work:
    """What :func:`counted` counts."""

    calls: int = 0
    """Calls of functions, those written in C included, and of coroutines and generators each time that they go on."""


@contextmanager
def counted() -> Iterator[Work]:
    """Count what this thread does inside, whoever has it done.

    For tests that something is not done over and over, or not more often the more there is. Interpreters differ by
    some tenths. How long it takes is for a benchmark to say.
    """
    work, before = Work(), sys.getprofile()

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        work.calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        yield work
    finally:
        sys.setprofile(before)
