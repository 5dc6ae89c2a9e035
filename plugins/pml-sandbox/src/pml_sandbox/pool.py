"""Processes that are started before they are needed. Each runs one piece of code and is never used again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from .child import Child, Listener, start
from .spawner import Spawner

if TYPE_CHECKING:
    from .dialect import Dialect
    from .pieces import ProcessSettings

IDLE_S = 600.0
"""Processes that nobody wanted for so long are ended [s]."""
REFILL_S = 0.05
"""A run that takes so long does not hold up the start of spare processes [s]."""
GONE_S = 2.0
"""How long the end of a killed process is waited for [s]."""


class _Greeting(Listener):
    """Waits for the bootstrap of a process that has nothing to run yet."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def frame(self, data: bytes) -> None:
        self._child.ready = True


class Pool:
    """Spare processes of one dialect."""

    def __init__(self, dialect: Dialect, settings: ProcessSettings, log: Any) -> None:
        """Take what to start, how many to keep and what each may say."""
        self.dialect, self._settings, self._log = dialect, settings, log
        self._open = False
        self._children: list[Child] = []
        self._work: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._spawner = Spawner()
        self._in_use = 0

    def open(self) -> None:
        """Keep spare processes from now on. Starts none: that is for the first run to do."""
        self._open = True

    async def close(self) -> None:
        """End all of them."""
        self._open = False
        if self._idle is not None:
            self._idle.cancel()
        for task in self._work:
            if task.get_name() == "sandbox spare":
                task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        await self._drop()
        await self._spawner.close()

    @asynccontextmanager
    async def child(self, folder: str | None, *, writable: bool = True) -> AsyncIterator[Child]:
        """A process of one's own, dead afterwards.

        Args:
            folder: The one directory that it gets; None for none.
            writable: Whether it may write into it; otherwise it can read and remove.

        Raises:
            OSError: None can be started.
            subprocess.SubprocessError: Its jail cannot be put up.
        """
        self._in_use += 1
        try:
            async with self._child(folder, writable=writable) as child:
                yield child
        finally:
            self._in_use -= 1
            if not self._open and not self._in_use:
                await self._spawner.close()

    @asynccontextmanager
    async def _child(self, folder: str | None, *, writable: bool) -> AsyncIterator[Child]:
        child = self._taken() if folder is None else None
        if child is None:
            child = await self._start(folder, writable=writable)
        # Starting a process keeps the loop busy for milliseconds, which short runs need not wait for.
        soon = asyncio.get_running_loop().call_later(REFILL_S, self._refill) if folder is None else None
        ended_well = False
        try:
            yield child
            ended_well = True
        finally:
            child.kill()
            if soon is not None:
                soon.cancel()
                self._refill()
            if self._open and ended_well:
                self._later(self._buried(child), "sandbox end")
            else:
                await self._buried(child)

    def _taken(self) -> Child | None:
        """The one that has been ready for longest; None without any."""
        while self._children:
            child = self._children.pop(0)
            if not child.gone.done():
                return child
        return None

    async def _start(self, folder: str | None, *, writable: bool = True) -> Child:
        sizes = {"frame_bytes": self._settings.frame_bytes, "output_bytes": self._settings.output_bytes}
        child = await start(self.dialect.command(folder, writable=writable), self._spawner, **sizes)
        child.listener = _Greeting(child)
        return child

    def _refill(self) -> None:
        if not self._open:
            return
        if not any(task.get_name() == "sandbox spare" for task in self._work):
            self._later(self._filled(), "sandbox spare")

    async def _filled(self) -> None:
        while self._open and len(self._children) < self._settings.spare:
            try:
                self._children.append(await self._start(None))
            except Exception as exc:
                # The next run tries for itself, and tells its caller.
                self._log.warning("no spare process for a sandbox could be started", problem=str(exc))
                break
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._retire)

    def _retire(self) -> None:
        self._later(self._drop(), "sandbox end")

    async def _drop(self) -> None:
        children, self._children = self._children, []
        for child in children:
            child.kill()
        for child in children:
            await self._buried(child)

    async def _buried(self, child: Child) -> None:
        done, _ = await asyncio.wait([child.gone], timeout=GONE_S)
        if not done:
            self._log.error("a sandbox's process does not end although it was killed", pid=child.pid)

    def _later(self, work: Any, name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
