"""Monty's worker processes, in the jail and warm.

A worker serves one piece of code after the other, each with an interpreter of its own: Monty runs nothing natively, so
nothing is left in a worker for the next one.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import sysconfig
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_monty import AsyncMonty

OWN_BYTES = 128 << 20
"""Memory of a worker beside that of the code [bytes]."""
RUNS = 1000
"""Pieces of code that a worker serves before another takes its place."""
GRACE_S = 0.1
"""Between a time limit and the end of a worker that does not keep it [s]."""
BUSY_TIMES = 20
BUSY_S = 0.02
"""Between attempts to start what another process has open for writing [s]."""


class Workers:
    """A pool of workers, for one event loop."""

    def __init__(self, most: int, memory_bytes: int) -> None:
        """Take how many workers there may be, and how much memory code may use."""
        self._most, self._memory_bytes = most, memory_bytes
        self._pool: AsyncMonty | None = None
        self._launcher: str | None = None

    async def open(self) -> None:
        """Start the first worker.

        Raises:
            OSError: It cannot be started.
        """
        self._launcher = _launcher(self._memory_bytes)
        for attempt in range(BUSY_TIMES):
            try:
                self._pool = self._made()
                await self._pool.__aenter__()
            except RuntimeError as exc:
                # A child forked by another thread while the script was being written has it open until it execs.
                if "Text file busy" not in str(exc) or attempt == BUSY_TIMES - 1:
                    self._pool = None
                    await self.close()
                    raise _not_started(exc) from exc
                await asyncio.sleep(BUSY_S)
            else:
                return

    def _made(self) -> AsyncMonty:
        from pydantic_monty import AsyncMonty

        return AsyncMonty(
            binary_path=self._launcher,
            min_processes=1,
            max_processes=self._most,
            max_checkouts_per_worker=RUNS,
            feed_duration_limit_grace=GRACE_S,
        )

    async def close(self) -> None:
        """End all workers."""
        if self._pool is not None:
            await self._pool.__aexit__(None, None, None)
            self._pool = None
        if self._launcher is not None:
            shutil.rmtree(Path(self._launcher).parent, ignore_errors=True)
            self._launcher = None

    @asynccontextmanager
    async def session(self, **how: Any) -> AsyncIterator[Any]:
        """A worker for one piece of code. Takes what ``AsyncMonty.checkout`` takes.

        Raises:
            OSError: None can be started.
        """
        assert self._pool is not None  # noqa: S101 - open() was called
        async with AsyncExitStack() as stack:
            try:
                worker = await stack.enter_async_context(self._pool.checkout(**how))
            except RuntimeError as exc:
                if type(exc) is not RuntimeError:  # one of Monty's own errors
                    raise
                raise _not_started(exc) from exc
            yield worker


def _not_started(error: RuntimeError) -> OSError:
    """Monty tells the number of the system's error in words."""
    found = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(found[1]) if found else 0, str(error))


def find_program() -> str:
    """What runs as a worker, as the wheel ``pydantic-monty-runtime`` brings it.

    Raises:
        FileNotFoundError: It is not installed.
    """
    found = shutil.which("monty", path=sysconfig.get_path("scripts")) or shutil.which("monty")
    if found is None:
        raise FileNotFoundError("the program monty is missing: install pydantic-monty again")
    return found


def _launcher(memory_bytes: int) -> str | None:
    """A script that puts a jail around the program that Monty starts as a worker; None where there is no jail."""
    from pml_kit.jail import Jail, system_files

    if not Jail().stands():
        return None
    program = os.path.realpath(find_program())
    # Not tied: its parent is a thread of Monty's own, which may end. It ends when its standard input does.
    jail = Jail(run=(program, *system_files()), memory_bytes=OWN_BYTES + memory_bytes, file_bytes=0, tied=False)
    script = Path(tempfile.mkdtemp(prefix="pml-monty-")) / "worker"
    # What a worker says of its own end would stand in the gateway's log unread.
    script.write_text(f'#!/bin/sh\nexec {shlex.join([*jail.command(), program])} "$@" 2>/dev/null\n')
    script.chmod(0o500)
    return str(script)
