"""A local plugin that writes down each long turn of the event loop: when it ended, its CPU time, what it was.

CPU time of the thread, not time on the wall: that another process has the cores is no fault of the gateway's. The work
of the garbage collector counts, and so does what holds the interpreter in C. What took long is counted by the pace that
the machine has right afterwards.
"""

import asyncio.events
import os
import time
from pathlib import Path

from pml_hookspecs import hookimpl
from pml_testing.pace import slowness

LONG_MS = float(os.environ.get("LOOP_WATCH_MS", "20"))
_run = asyncio.events.Handle._run
_file = Path(os.environ["LOOP_WATCH"]).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115 - as long as the process


def watched(handle):
    begin = time.thread_time()
    try:
        return _run(handle)
    finally:
        took_ms = (time.thread_time() - begin) * 1000
        if took_ms > LONG_MS:
            took_ms /= slowness()
            _file.write(f"{time.time():.3f} {took_ms:.1f} {str(handle)[:200]}\n".replace("\x00", ""))


asyncio.events.Handle._run = watched


@hookimpl
def pml_meta_tools(services):
    """Nothing: what it does, it does by being imported."""
    return []
