"""Ids that sort by time, and W3C trace ids."""

from __future__ import annotations

import os
import time

from pml_hookspecs import ExecutionId

POOL_BYTES = 4096


class _Pool:
    """Random bytes from the system, fetched many at a time: asking it for each id costs as much as a tool call."""

    def __init__(self) -> None:
        self._bytes, self._at = b"", POOL_BYTES
        os.register_at_fork(after_in_child=self._empty)

    def _empty(self) -> None:
        self._at = POOL_BYTES

    def take(self, count: int) -> bytes:
        """``count`` bytes that were never given before."""
        if self._at + count > POOL_BYTES:
            self._bytes, self._at = os.urandom(POOL_BYTES), 0
        start = self._at
        self._at += count
        return self._bytes[start : self._at]


_pool = _Pool()


def execution_id() -> ExecutionId:
    """A UUIDv7 (RFC 9562 §5.7) whose sub-millisecond part is a fraction of time, so that order survives bursts."""
    now = time.time_ns()
    milliseconds, rest = divmod(now, 1_000_000)
    fraction = rest * 4096 // 1_000_000
    random = int.from_bytes(_pool.take(8)) & 0x3FFF_FFFF_FFFF_FFFF
    text = f"{milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0x2 << 62 | random:032x}"
    return ExecutionId(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")


def trace_id() -> str:
    """32 lower-case hex digits."""
    return _pool.take(16).hex()


def span_id() -> str:
    """16 lower-case hex digits."""
    return _pool.take(8).hex()
