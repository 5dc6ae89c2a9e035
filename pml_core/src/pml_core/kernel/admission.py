"""The wrapper that the core itself brings: a tool exists, and the caller may have it, or nothing runs."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_core.catalog.live import KNOWN
from pml_core.catalog.server_views import reason_for
from pml_core.mcp.client import current_client
from pml_core.mcp.lengths import cut
from pml_core.mcp.naming import entry_of
from pml_hookspecs import (
    GATEWAY_SERVER,
    AccessEvent,
    CallNext,
    CatalogEntry,
    Failure,
    Outcome,
    Phase,
    Run,
    ServerRequest,
    ServerStatus,
    Session,
    Status,
    Task,
    ToolCall,
    ToolFilter,
    Workflow,
    split_tool_id,
)

from .chain import ended

if TYPE_CHECKING:
    from pml_core.catalog.live import LiveCatalog

    from .attempts import Attempts
    from .identities import AccessWatchers, KeyRecheck


AWAY = ("starting", "down")
"""States of a server whose tools may be known later."""


class Filters:
    """All tool filters as one. A tool is kept by ``True`` alone: all else that a filter does counts as "drop"."""

    def __init__(
        self,
        filters: Iterable[tuple[str, ToolFilter]],
        log: Any,
        refused: Callable[[CatalogEntry], str | None] = lambda _entry: None,
    ) -> None:
        """``filters`` are with the plugins that contribute them; ``refused`` names the setting that drops an entry."""
        self._log, self._refused = log, refused
        self._told: set[str] = set()
        self.use(filters)

    @property
    def shared(self) -> bool:
        """Whether they keep the same for every session."""
        return all(getattr(keeps, "shared", False) for _, keeps in self._filters)

    def __iter__(self) -> Iterator[tuple[str, ToolFilter]]:
        return iter(self._filters)

    def use(self, filters: Iterable[tuple[str, ToolFilter]]) -> None:
        """Have these from now on; whoever keeps what was filtered has to begin again."""
        self._filters = tuple(filters)
        self._hiding = tuple(pair for pair in self._filters if getattr(pair[1], "hides", False))

    def refusing(self, entry: CatalogEntry, session: Session) -> str | None:
        """Name of the setting, or the first plugin, that drops ``entry``; None when all keep it."""
        if (setting := self._refused(entry)) is not None:
            return setting
        for plugin, keeps in self._filters:
            try:
                kept = keeps(entry, session)
            except Exception:
                self._log.exception("tool filter failed; the tool is dropped", plugin=plugin, tool=entry.id)
                return plugin
            if kept is not True:
                self._tell(plugin, kept)
                return plugin
        return None

    def _tell(self, plugin: str, kept: object) -> None:
        """Say once of a plugin that its filter gives neither True nor False."""
        if inspect.iscoroutine(kept):
            kept.close()
        if kept is not False and plugin not in self._told:
            self._told.add(plugin)
            self._log.error(
                "a tool filter gives neither True nor False; what it judges is dropped",
                plugin=plugin,
                given=type(kept).__name__,
            )

    def hides(self, entry: CatalogEntry, session: Session) -> bool:
        """Whether ``session`` may not even know that there is ``entry``; one that fails hides it.

        The names of the gateway's own tools are no secret.
        """
        if entry.server == GATEWAY_SERVER:
            return False
        try:
            for plugin, keeps in self._hiding:
                if (kept := keeps(entry, session)) is not True:
                    self._tell(plugin, kept)
                    return True
        except Exception:  # it is logged where the tool is dropped
            return True
        return False


class Admission:
    """Refuses tools that are unknown, unreachable or filtered. Implements :class:`pml_hookspecs.Wrapper`.

    It has the core's other checks made as well: each wrapper costs every call some time.
    """

    phase = Phase.AUTHORIZE

    def __init__(
        self,
        catalog: LiveCatalog,
        filters: Filters,
        standing: KeyRecheck | None = None,
        attempts: Attempts | None = None,
        watchers: AccessWatchers | None = None,
        closed: Mapping[str, str] = {},
        finders: Callable[[Session], Awaitable[Sequence[str]]] | None = None,
    ) -> None:
        """``closed`` are the guards that failed, and why, as of now; ``finders`` gives the tools to find others by."""
        self._catalog, self._filters, self._standing, self._attempts = catalog, filters, standing, attempts
        self._watchers, self._closed, self._finders = watchers, closed, finders

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Let the task pass or say why not."""
        if self._closed:
            return _refused(task, Status.DENIED, _missing_guard(*next(iter(self._closed.items()))))
        if run.session.access_key and self._standing is not None and current_client.get() is None:
            return self._standing.check(task, run, lambda task, run: self._admit(task, run, call_next))
        return self._admit(task, run, call_next)

    def _admit(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        if isinstance(task, ServerRequest):
            return self._request(task, run, call_next)
        if not isinstance(task, ToolCall):
            if isinstance(task, Workflow) and task.durable and self._attempts is not None:
                return self._attempts.count(task, run, call_next)
            return call_next(task, run)
        entry = self._catalog.get(task.tool)
        if entry is None:
            return self._unlisted(task, run, call_next)
        if self._filters.hides(entry, run.session):
            return self._hide(task, run)
        return self._allowed(f"Tool {task.tool!r}", entry, task, run, call_next)

    def _unlisted(self, task: ToolCall, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """A tool that may be served and is not listed: it is judged by its name, and by that in small letters."""
        found = self._catalog.unlisted(task.tool, run.session)
        if len(found) != 1 or found[0].id != task.tool:
            return self._hide(task, run)
        small = entry_of(f"{found[0].server}:{found[0].name.lower()}", self._catalog)
        for entry in (small, found[0]):
            if self._filters.hides(entry, run.session):
                return self._hide(task, run)
            if self._filters.refusing(entry, run.session) is not None:
                return self._allowed(f"Tool {task.tool!r}", entry, task, run, call_next)
        return call_next(task, run)

    def _allowed(self, what: str, entry: CatalogEntry, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        plugin = self._filters.refusing(entry, run.session)
        if plugin is None:
            return call_next(task, run)
        message = f"{what} is not allowed here (refused by {plugin!r})."
        return _refused(task, Status.DENIED, Failure("policy.denied", message, details={"plugin": plugin}))

    def _request(self, task: ServerRequest, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        entry = entry_of(task.name, self._catalog)
        if self._filters.hides(entry, run.session):
            return self._hide_request(task, run)
        return self._allowed(f"{task.method} of {task.name!r}", entry, task, run, call_next)

    async def _hide_request(self, task: ServerRequest, run: Run) -> Outcome:
        """Answer that there is nothing of that name; those who watch are told that there may be."""
        failure = Failure("request.unknown", f"{task.method}: there is no such {task.kind}")
        await self._tell(task.name, failure, run)
        return await _refused(task, Status.ERROR, failure)

    async def _hide(self, task: ToolCall, run: Run) -> Outcome:
        """Answer that there is no such tool; where one is hidden, those who watch are told so."""
        failure = await self._unknown(task.tool, run.session)
        if self._catalog.resolve(task.tool) is not None:
            await self._tell(task.tool, failure, run)
        return await _refused(task, Status.ERROR, failure)

    async def _tell(self, target: str, failure: Failure, run: Run) -> None:
        if self._watchers is not None:
            event = AccessEvent(
                kind="refused",
                target=target,
                session=run.session,
                execution=run.id,
                code="policy.hidden",
                message=failure.message,
            )
            await self._watchers.tell(event)

    async def _unknown(self, tool: str, session: Session) -> Failure:
        named, bare = self._catalog.servers_of(tool, session)
        if away := [status for status in named if status.state not in KNOWN]:
            return not_connected(away[0].name, _why_away(away[0], session))
        server = split_tool_id(tool)[0]
        if server and not named and server != GATEWAY_SERVER:
            known = ", ".join(one.name for one in self._catalog.servers(session)) or "none"
            return not_connected(server, f"it is not configured; configured: {known}", retryable=False)
        if not named and (away := [status for status in bare if status.state in AWAY]):
            return _maybe_of(tool, {status.name: _why_away(status, session) for status in away})
        near = self._catalog.nearest(tool, session)
        by = [] if near or self._finders is None else await self._finders(session)
        hint = f" Did you mean {' or '.join(near)}?" if near else f" Find tools with {' or '.join(by)}." if by else ""
        return Failure("tool.unknown", f"Unknown tool: {cut(tool)}.{hint}", details={"nearest": near})


async def _refused(task: Task, status: Status, failure: Failure) -> Outcome:
    return ended(task, datetime.now(UTC), status, failure=failure)


def _missing_guard(plugin: str, problem: str) -> Failure:
    message = (
        f"Nothing is run: plugin {plugin!r}, which says what is allowed here, failed ({problem}). The operator has to "
        f'mend it, or to do without it: [gateway] block = ["{plugin}"].'
    )
    return Failure("policy.guard_missing", message, details={"plugin": plugin})


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
