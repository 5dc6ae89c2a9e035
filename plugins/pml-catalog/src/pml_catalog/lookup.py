"""What a task names that is not known: looked up at the servers that may have it, and why it is refused then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pml_hookspecs import GATEWAY_SERVER, Failure, Session, Task, ToolCall, ToolId, Workflow, split_tool_id

from .lengths import cut
from .live import KNOWN
from .server_views import reason_for

if TYPE_CHECKING:
    from pml_hookspecs import ServerStatus

    from .live import LiveCatalog
    from .own_tools import OwnTools

AWAY = ("starting", "down")
"""States of a server whose tools may be known later."""
Finders = Callable[[Session], Awaitable[Sequence[str]]]
"""Gives the names of tools that find others, as a session knows them."""


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


async def unknown_tool(catalog: LiveCatalog, tool: str, session: Session, finders: Finders | None = None) -> Failure:
    """Why a tool that ``session`` named cannot be called, with what it may have meant, or what finds that."""
    named, bare = catalog.servers_of(tool, session)
    if away := [status for status in named if status.state not in KNOWN]:
        return not_connected(away[0].name, _why_away(away[0], session))
    server = split_tool_id(tool)[0]
    if server and not named and server != GATEWAY_SERVER:
        known = ", ".join(one.name for one in catalog.servers(session)) or "none"
        return not_connected(server, f"it is not configured; configured: {known}", retryable=False)
    if not named and (away := [status for status in bare if status.state in AWAY]):
        return _maybe_of(tool, {status.name: _why_away(status, session) for status in away})
    near = catalog.nearest(tool, session)
    by = [] if near or finders is None else await finders(session)
    hint = f" Did you mean {' or '.join(near)}?" if near else f" Find tools with {' or '.join(by)}." if by else ""
    return Failure("tool.unknown", f"Unknown tool: {cut(tool)}.{hint}", details={"nearest": near})


def _why_away(status: ServerStatus, session: Session) -> str:
    return reason_for(session, status.reason) if status.reason else status.state


def _maybe_of(tool: str, away: Mapping[str, str]) -> Failure:
    """The failure for a name that says no server, while servers are away whose tools have such names."""
    why = "; ".join(f"{server}: {reason}" for server, reason in away.items())
    message = f"Tool {cut(tool)} is not known; it may be of a server that is not connected: {why}"
    details = {"servers": list(away), "reason": why}
    return Failure("tool.not_connected", message, retryable=True, details=details)


def not_connected(server: str, reason: str, *, retryable: bool = True) -> Failure:
    """The failure for a server that cannot be reached; ``retryable`` unless it is none that could be."""
    details = {"server": server, "reason": reason}
    message = f"MCP server {server} not connected: {reason}"
    return Failure("tool.not_connected", message, retryable=retryable, details=details)
