"""What the pages ask the gateway: its own tools, through the same chain as every call, with the reader's rights."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from pml_hookspecs import (
    GATEWAY_SERVER,
    ExecutionId,
    ExecutionQuery,
    InvalidArguments,
    Page,
    RunOptions,
    ToolCall,
    ToolId,
    UnauthenticatedError,
    encode,
)
from pml_kit.command_line.moments import moment
from pml_kit.offers import ACCESS, AccessEvent, required
from pml_kit.pages import every_execution

from .insight.figures import figures_of
from .reports.report import Reader, failures_of, report_of

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord, Scope, Services, Session

    from .insight.list_tokens import TokenSizes

APPROVE = "approve"
"""The scope of those who answer approvals, and see all of them."""
LONGEST_TARGET = 200
"""Characters of what was asked for that are reported."""
PAGE = 100
MOST_LATEST = 100
"""Executions that are looked at to say what one takes."""
MOST_INSIDE = 300
"""Executions inside one that are shown."""


def plain(value: Any) -> Any:
    """JSON as lists and dicts, however it is kept."""
    return json.loads(encode(value))


class RefusedError(Exception):
    """What was asked for is not given: why, in words."""


class History:
    """What one reader may see, and do."""

    def __init__(self, services: Services, session: Session) -> None:
        self._services, self._session = services, session

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the gateway's own ``tool`` answers, as structured content.

        Raises:
            RefusedError: It does not run, for this reader or at all.
        """
        task = ToolCall(id="call", tool=ToolId(f"{GATEWAY_SERVER}:{tool}"), arguments=arguments)
        outcome = await self._services.run(task, self._session, RunOptions(trigger="manual"))
        if outcome.failure is not None:
            raise RefusedError(outcome.failure.message)
        output = outcome.output
        content = output.get("structuredContent") if isinstance(output, Mapping) else None
        return content if isinstance(content, Mapping) else {}

    async def ask_installed(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """As :meth:`call`; None where no plugin brings the tool.

        Raises:
            RefusedError: It does not run.
        """
        id = ToolId(f"{GATEWAY_SERVER}:{tool}")
        return None if self._services.catalog.get(id) is None else await self.call(tool, arguments)

    async def record(self, id: str) -> ExecutionRecord | None:
        """One execution; None when there is none that this reader may read. Whoever watches access hears of both.

        Raises:
            RefusedError: The reader's key does not count any more.
        """
        found = await self.look(id)
        kind: Literal["query", "refused"] = "refused" if found is None else "query"
        event = AccessEvent(kind=kind, target=f"console {id}"[:LONGEST_TARGET], session=self._session, execution=id)
        await required(self._services, ACCESS).report(event)
        return found

    async def latest(self) -> Sequence[ExecutionRecord]:
        """The latest that this reader may read of what clients asked for, the newest first.

        Raises:
            RefusedError: The reader's key does not count any more.
        """
        query = ExecutionQuery(scope=await self._scope(), top_level=True, include_dry_runs=False, limit=MOST_LATEST)
        return (await self._services.store.executions.find(query)).items

    async def mark(self, hours: float, statuses: frozenset[str] | None = None) -> tuple[Any, ...]:
        """How many executions of the last ``hours`` this reader may see, and the newest: a cheap way to see a change.

        Args:
            hours: How far back.
            statuses: Only these; None for any.

        Raises:
            RefusedError: The reader's key does not count any more.
        """
        since = datetime.now(UTC) - timedelta(hours=hours)
        scope = await self._scope(results=False)
        query = ExecutionQuery(scope=scope, since=since, statuses=statuses, top_level=True, limit=1)
        found = await self._services.store.executions.find(query)
        return found.total, *((one.id, one.status) for one in found.items)

    async def look(self, id: str) -> ExecutionRecord | None:
        """As :meth:`record`, of what the reader has just begun: nobody hears of it.

        Raises:
            RefusedError: The reader's key does not count any more.
        """
        return await self._services.store.executions.get(ExecutionId(id), await self._scope())

    async def inside(self, id: str) -> Page[ExecutionRecord]:
        """The last :data:`MOST_INSIDE` that ran inside an execution, oldest first, and how many there are.

        Raises:
            RefusedError: The reader's key does not count any more.
        """
        executions = self._services.store.executions
        query = ExecutionQuery(scope=await self._scope(), parent=ExecutionId(id), limit=PAGE)
        found = [record async for record in every_execution(executions, query, most=MOST_INSIDE)]
        total = len(found) if len(found) < MOST_INSIDE else (await executions.find(query)).total
        return Page(found[::-1], None, total)

    async def failures(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Failures alike as one, narrowed as a list is; see :func:`report.failures_of`. Who watches access hears of it.

        Raises:
            RefusedError: A time is none, or the reader's key does not count any more.
        """
        now = datetime.now(UTC)
        try:
            until = moment(given["until"], "'until'", now, ends=True) if given.get("until") else None
            since = moment(given["since"], "'since'", now) if given.get("since") else None
        except InvalidArguments as exc:
            raise RefusedError(str(exc)) from None
        query = ExecutionQuery(
            scope=await self._scope(),
            since=since or (until or now) - timedelta(hours=given["hours"]),
            until=until,
            agent=given.get("agent_name"),
            principal=given.get("person"),
            target=given.get("tool"),
            trigger=given.get("triggered_by"),
            text=given.get("query"),
            top_level="tool" not in given,
        )
        await self._tell("console failures")
        try:
            return await failures_of(self._services.store.executions, query)
        except (ValueError, OverflowError) as exc:
            raise RefusedError(str(exc)) from None

    async def report(self, since: datetime, until: datetime) -> dict[str, Any]:
        """What :func:`report.report_of` tells this reader. Who watches access hears of it.

        Raises:
            RefusedError: The reader's key does not count any more.
        """
        catalog = self._services.catalog
        counted = await self._scope(results=False)
        everything = counted.principals is None
        reader = Reader(
            counted=counted,
            read=await self._scope(),
            principal=None if everything or APPROVE in self._session.scopes else self._session.principal,
            tools=None if everything else frozenset(one.id for one in catalog if catalog.allows(one, self._session)),
        )
        await self._tell("console report")
        return await report_of(self._services.store, since, until, reader)

    async def figures(self, days: int, sizes: TokenSizes) -> dict[str, Any]:
        """What :func:`insight.figures.figures_of` tells this reader. Who watches access hears of it.

        Raises:
            RefusedError: The reader's key does not count any more.
        """
        counted, read = await self._scope(results=False), await self._scope()
        await self._tell("console insight")
        return await figures_of(self._services, self._session, days, sizes, counted=counted, read=read)

    async def _tell(self, target: str) -> None:
        event = AccessEvent(kind="query", target=target, session=self._session)
        await required(self._services, ACCESS).report(event)

    async def _scope(self, *, results: bool = True) -> Scope:
        try:
            return await required(self._services, ACCESS).scope(self._session, results=results)
        except UnauthenticatedError as exc:
            raise RefusedError(str(exc)) from None
