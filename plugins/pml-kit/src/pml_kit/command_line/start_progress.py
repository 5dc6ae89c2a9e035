"""What a command waits for, told on standard error while it does."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pml_hookspecs import ServerStatus

LOOK_S = 0.1
LINE_S = 3.0
"""How often a line is written where standard error is no terminal, the first one after as long [s]."""
NAMED = 3


async def until_started(statuses: Callable[[], Sequence[ServerStatus]]) -> None:
    """Wait until no server is starting any more, each within its own time, and tell how many are up."""
    from rich.console import Console

    console = Console(stderr=True)
    said_s = time.monotonic()
    with console.status("starting servers", spinner="dots") as shown:
        while waiting := [status.name for status in statuses() if status.state == "starting"]:
            text = said(statuses(), waiting)
            shown.update(text)
            if not sys.stderr.isatty() and time.monotonic() - said_s >= LINE_S:
                said_s = time.monotonic()
                print(f"pml: {text}", file=sys.stderr, flush=True)
            await asyncio.sleep(LOOK_S)


def said(statuses: Sequence[ServerStatus], waiting: Sequence[str]) -> str:
    """``11 of 25 servers up, waiting for a, b and 2 more``."""
    enabled = [status for status in statuses if status.state != "disabled"]
    up = sum(status.state in ("up", "idle") for status in enabled)
    more = f" and {len(waiting) - NAMED} more" if len(waiting) > NAMED else ""
    return f"{up} of {len(enabled)} servers up, waiting for {', '.join(waiting[:NAMED])}{more}"
