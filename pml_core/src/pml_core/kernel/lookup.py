"""What a task names that is not known yet: looked up at the servers that may have it before it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pml_hookspecs import Session, Task, ToolCall, ToolId, Workflow

if TYPE_CHECKING:
    from pml_core.catalog.live import LiveCatalog

    from .own_tools import OwnTools


class Lookup:
    """Finds what has to be waited for, and waits for that."""

    def __init__(
        self,
        catalog: LiveCatalog,
        own_tools: OwnTools,
        settled: Callable[[str | None], Awaitable[None]],
        read_again: Callable[[str], Awaitable[None]],
    ) -> None:
        """Neither waits for longer than the gateway's bound.

        Args:
            settled: Waits for the servers that may have the tool of a name; None: for all.
            read_again: Has a server's list read again, unless that was done a moment ago.
        """
        self._catalog, self._own_tools, self._settled, self._read_again = catalog, own_tools, settled, read_again

    def needed(self, task: Task, session: Session) -> Sequence[str | None]:
        """Names of tools that are not known, with None for the whole catalog; empty where nothing is missing."""
        if isinstance(task, Workflow):
            # Without tasks it is planned from what there is.
            return sorted({*self._unknown(calls_in(task.tasks), session)}) if task.tasks else (None,)
        if not isinstance(task, ToolCall):
            return ()
        entry = self._catalog.resolve(task.tool, session)
        if entry is None:
            return (task.tool,)
        own = self._own_tools.get(entry.id)
        return (None,) if own is not None and own.whole_catalog else ()

    def _unknown(self, calls: Iterator[ToolCall], session: Session) -> Iterator[str]:
        return (call.tool for call in calls if self._catalog.resolve(call.tool, session) is None)

    async def wait(self, needed: Sequence[str | None], session: Session) -> None:
        """Wait for what :meth:`needed` gave, and have the lists read again of servers that may have it."""
        if len(needed) == 1:
            await self._settled(needed[0])
        else:
            await asyncio.gather(*(self._settled(name) for name in needed))
        servers = {
            entry.server
            for name in needed
            if name is not None and self._catalog.resolve(name, session) is None
            for entry in self._catalog.unlisted(name, session)
            if self._catalog.allows(entry, session)
        }
        if servers:
            await asyncio.gather(*(self._read_again(server) for server in servers))

    def unlisted(self, tool: str, session: Session) -> ToolId | None:
        """The id of a tool that no server lists and one alone may serve; None for all others."""
        if self._catalog.resolve(tool, session) is not None:
            return None
        found = self._catalog.unlisted(tool, session)
        return found[0].id if len(found) == 1 else None


def calls_in(tasks: Sequence[Task]) -> Iterator[ToolCall]:
    """The calls of a plan, those of plans within and of what undoes included."""
    for task in tasks:
        for one in (task, task.step.compensate):
            if isinstance(one, ToolCall):
                yield one
            elif isinstance(one, Workflow):
                yield from calls_in(one.tasks)
