"""Ids that sort by time, and W3C trace ids."""

from __future__ import annotations

import os
import time

from pml_hookspecs import ExecutionId


def execution_id() -> ExecutionId:
    """A UUIDv7 (RFC 9562 §5.7) whose sub-millisecond part is a fraction of time, so that order survives bursts."""
    now = time.time_ns()
    milliseconds, rest = divmod(now, 1_000_000)
    fraction = rest * 4096 // 1_000_000
    random = int.from_bytes(os.urandom(8)) & 0x3FFF_FFFF_FFFF_FFFF
    text = f"{milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0x2 << 62 | random:032x}"
    return ExecutionId(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")


def trace_id() -> str:
    """32 lower-case hex digits."""
    return os.urandom(16).hex()


def span_id() -> str:
    """16 lower-case hex digits."""
    return os.urandom(8).hex()
