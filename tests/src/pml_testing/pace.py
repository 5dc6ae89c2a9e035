"""How fast this machine is right now, so that a limit in milliseconds means the same on a slow one."""

from __future__ import annotations

import json
import time
from typing import Any

REFERENCE_MS = 4.5
"""What :func:`_piece` takes on a machine where limits are taken at their word: Python 3.11, an idle core of 2024."""
TRIES = 3


def slowness() -> float:
    """How many times slower than the reference this thread is just now, at least 1; it takes some 15 ms to tell."""
    best_s = float("inf")
    for _ in range(TRIES):
        begin = time.thread_time()
        _piece()
        best_s = min(best_s, time.thread_time() - begin)
    return max(1.0, best_s * 1000 / REFERENCE_MS)


def _piece() -> int:
    """What PML spends its time with: JSON is written, read, and walked."""
    text = json.dumps([{f"m{i}": [i, str(i), {"a": i}]} for i in range(2000)])
    waiting: list[Any] = [json.loads(text)]
    steps = 0
    while waiting:
        value = waiting.pop()
        steps += 1
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return steps
