"""Keeps the folder of a run to what it may hold."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pml_hookspecs import FolderSize
from pml_kit.system.folders import size_of

if TYPE_CHECKING:
    from pml_hookspecs import CodeRun

LOOK_S = 0.1
"""Between two looks at a folder that code writes into [s]."""
SHARE = 10
"""How many times the processor time of a look nothing is looked at after it; a busy machine makes no look rarer."""
NOTHING = FolderSize(0, 0)


class Quota:
    """That of one run. Without a limit it measures nothing."""

    def __init__(self, task: CodeRun) -> None:
        """Take what is to run."""
        self._folder, self.limit = task.folder, task.folder_limit
        self.full = False
        """Whether the folder held more than it may before the code began: it must not be written into."""
        self._before = NOTHING
        self._look_s = 0.0
        """Processor time of the last look [s]."""

    async def begin(self) -> None:
        """Look at the folder before the code begins."""
        self._before = await self._size()
        self.full = self.limit is not None and self._before.exceeds(self.limit)

    def left_bytes(self, most_bytes: int) -> int:
        """What may still be written, and no more than ``most_bytes`` [bytes]."""
        return most_bytes if self.limit is None else max(min(most_bytes, self.limit.bytes - self._before.bytes), 0)

    async def exceeded(self) -> bool:
        """Whether the code has filled the folder beyond its limit; False for one that was full before."""
        return self.limit is not None and not self.full and (await self._size()).exceeds(self.limit)

    @asynccontextmanager
    async def watched(self, over: Callable[[], None]) -> AsyncIterator[None]:
        """Call ``over`` once, as soon as the folder holds too much; how soon depends on how long it takes to see."""
        watching = asyncio.get_running_loop().create_task(self._watch(over)) if self.limit and not self.full else None
        try:
            yield
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, over: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(max(LOOK_S, SHARE * self._look_s))
            if await self.exceeded():
                over()
                return

    async def _size(self) -> FolderSize:
        if self._folder is None or self.limit is None:
            return NOTHING
        return await asyncio.to_thread(self._look, self._folder, self.limit.files)

    def _look(self, folder: str, most_files: int) -> FolderSize:
        began_s = time.thread_time()
        size = size_of(folder, most_files)
        self._look_s = time.thread_time() - began_s
        return size
