"""The wrapper that the core itself brings: a tool exists, and the caller may have it, or nothing runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pml_catalog.lookup import unknown_tool
from pml_catalog.naming import entry_of
from pml_hookspecs import (
    CallNext,
    CatalogEntry,
    Failure,
    Outcome,
    Phase,
    Run,
    ServerRequest,
    Session,
    Status,
    Task,
    ToolCall,
    Workflow,
)
from pml_kit.mcp.effects import ANY, Effects, effects_of, exceeds, refusal
from pml_kit.offers import AccessEvent
from pml_kit.outcomes import ended
from pml_mcp.wire.client import current_client

if TYPE_CHECKING:
    from pml_background.key_recheck import KeyRecheck
    from pml_background.resume_limit import ResumeLimit
    from pml_catalog.exposure.tool_rules import Filters
    from pml_catalog.live import LiveCatalog

    from .identities import AccessWatchers


class Admission:
    """Refuses tools that are unknown, unreachable or filtered. Implements :class:`pml_hookspecs.Wrapper`.

    It has the core's other checks made as well: each wrapper costs every call some time.
    """

    phase = Phase.AUTHORIZE

    def __init__(
        self,
        catalog: LiveCatalog,
        filters: Filters,
        key_recheck: KeyRecheck | None = None,
        resumes: ResumeLimit | None = None,
        watchers: AccessWatchers | None = None,
        closed: Mapping[str, str] = {},
        finders: Callable[[Session], Awaitable[Sequence[str]]] | None = None,
        users: Callable[[Session, Effects], Awaitable[list[str]]] | None = None,
    ) -> None:
        """``closed`` are guards that failed, and why; ``finders`` and ``users`` give tools to find and call others."""
        self._catalog, self._filters, self._key_recheck, self._resumes = catalog, filters, key_recheck, resumes
        self._watchers, self._closed, self._finders, self._users = watchers, closed, finders, users

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Let the task pass or say why not."""
        if self._closed:
            from pml_kit.outcomes import missing_guard

            return _refused(task, Status.DENIED, missing_guard(*next(iter(self._closed.items()))))
        if run.session.access_key and self._key_recheck is not None and current_client.get() is None:
            return self._key_recheck(task, run, lambda task, run: self._admit(task, run, call_next))
        return self._admit(task, run, call_next)

    def _admit(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        if isinstance(task, ServerRequest):
            return self._request(task, run, call_next)
        if not isinstance(task, ToolCall):
            return self._other(task, run, call_next)
        entry = self._catalog.get(task.tool)
        if entry is None:
            return self._unlisted(task, run, call_next)
        if self._filters.hides(entry, run.session):
            return self._hide(task, run)
        return self._allowed(f"Tool {task.tool!r}", entry, task, run, call_next)

    def _other(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        if exceeds(does := effects_of(task, None), run.session):
            return self._exceeding(f"Task {task.id!r}", does, task, run)
        if isinstance(task, Workflow) and task.durable and self._resumes is not None:
            return self._resumes.count(task, run, call_next)
        return call_next(task, run)

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
                break
        return self._allowed(f"Tool {task.tool!r}", entry, task, run, call_next)

    def _allowed(self, what: str, entry: CatalogEntry, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        plugin = self._filters.refusing(entry, run.session)
        if plugin is None:
            if run.session.effects != ANY and exceeds(does := effects_of(task, entry), run.session):
                return self._exceeding(what, does, task, run)
            return call_next(task, run)
        message = f"{what} is not allowed here (refused by {plugin!r})."
        return _refused(task, Status.DENIED, Failure("policy.denied", message, details={"plugin": plugin}))

    async def _exceeding(self, what: str, does: Effects, task: Task, run: Run) -> Outcome:
        others = [] if self._users is None else await self._users(run.session, does)
        return await _refused(task, Status.DENIED, refusal(what, does, run.session, others))

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
        failure = await unknown_tool(self._catalog, task.tool, run.session, self._finders)
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


async def _refused(task: Task, status: Status, failure: Failure) -> Outcome:
    return ended(task, datetime.now(UTC), status, failure=failure)
