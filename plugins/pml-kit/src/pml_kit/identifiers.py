"""Ids that sort by time, and the W3C trace ids that follow from them."""

from __future__ import annotations

import functools
import os
import time
from datetime import UTC, datetime

from pml_hookspecs import ExecutionId

POOL_DIGITS = 8192
HANDLE = "pml."
"""Begins every handle: what a client is given to go on with what one gateway keeps for it."""


class _Pool:
    """Random digits from the system, fetched many at a time: asking it for each id costs as much as a tool call."""

    def __init__(self) -> None:
        self._digits, self._at = "", POOL_DIGITS
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._empty)

    def _empty(self) -> None:
        self._at = POOL_DIGITS

    def take(self, count: int) -> str:
        """``count`` hexadecimal digits that were never given before."""
        start = self._at
        if start + count > POOL_DIGITS:
            self._digits, start = os.urandom(POOL_DIGITS // 2).hex(), 0
        self._at = start + count
        return self._digits[start : self._at]


_pool = _Pool()


def execution_id() -> ExecutionId:
    """A UUIDv7 (RFC 9562 §5.7) whose sub-millisecond part is a fraction of time, so that order survives bursts.

    Behind it are 60 random bits.
    """
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    head = (milliseconds << 16 | 0x7000 | rest * 4096 // 1_000_000).to_bytes(8).hex()
    tail = _pool.take(15)
    return ExecutionId(f"{head[:8]}-{head[8:12]}-{head[12:]}-8{tail[:3]}-{tail[3:]}")


def time_of(execution: ExecutionId) -> datetime:
    """When the execution began, to the millisecond, UTC.

    Raises:
        ValueError: The id is not one that :func:`execution_id` makes.
    """
    return datetime.fromtimestamp(int(execution[:8] + execution[9:13], 16) / 1000, UTC)


def trace_id(first: ExecutionId) -> str:
    """The trace that begins with an execution, 32 lower-case hex digits: the same number.

    It sorts by time, which makes storing it cheap, and ends in 56 random bits, as W3C Trace Context level 2 wants it.
    """
    return first.replace("-", "")


def span_id(execution: ExecutionId) -> str:
    """The span of an execution, 16 lower-case hex digits: the random half of the id. Never all zeros."""
    return execution[19:23] + execution[24:]


@functools.cache
def gateway_name() -> str:
    """This process among all gateways, as its handles say it."""
    return _pool.take(16)


def handle() -> str:
    """A new handle for something that this process keeps, with 128 random bits: whoever has it was given it."""
    return f"{HANDLE}{gateway_name()}.{_pool.take(32)}"


def holder_of(handle: object) -> str:
    """The :func:`gateway_name` of the process that gave out a handle; ``""`` when it is none."""
    if not isinstance(handle, str) or not handle.startswith(HANDLE):
        return ""
    return handle[len(HANDLE) :].partition(".")[0]
