"""When Python looks for garbage: what a call makes is freed without that, so looking often is time for nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

THRESHOLDS = (20_000, 20, 20)
"""See :func:`gc.set_threshold`. With Python's own, made for programs with less under way at once, looking for garbage
took a sixth of the gateway's time at 64 calls in flight."""


@contextmanager
def seldom_collected() -> Iterator[Callable[[], None]]:
    """Look for garbage seldom while the block runs; not at all before it calls what it is given, once it has started.

    What was made until then stays as long as the process, and is not looked at again.
    """
    before, were_enabled = gc.get_threshold(), gc.isenabled()

    def started() -> None:
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)
        gc.enable()

    gc.disable()
    try:
        yield started
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
        if were_enabled:
            gc.enable()
        else:
            gc.disable()
