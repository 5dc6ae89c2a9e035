"""The two tools."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExecutionId, ExecutionQuery, InvalidArguments, Scope

from .arguments import checked
from .definitions import GET_EXECUTION_RESULT, LIST_RECENT_EXECUTIONS
from .records import PUBLIC, asked, detailed, inside, listed

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord, Run, Services, Session

SYSTEM = "system"
"""The scope whose holders see everyone's executions."""
PAGE = 100
LONGEST_TRANSCRIPT = 1000
"""Most executions in one transcript."""


class ListRecentExecutions:
    """Answers calls of ``list_recent_executions``."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> dict[str, Any]:
        """Executions that a client asked for, newest first; what they ran inside is not listed.

        Returns:
            ``executions``; ``total_count``, matches beyond the limit included; ``filters_applied``, null for those not
            used.

        Raises:
            InvalidArguments: An argument is not what the definition says.
        """
        given = checked(LIST_RECENT_EXECUTIONS, arguments)
        given["agent_name"] = given["agent_name"] or None
        status = given["status"]
        query = ExecutionQuery(
            scope=_scope(run.session),
            since=datetime.now(UTC) - timedelta(hours=given["hours"]),
            agent=given["agent_name"],
            statuses=None if status is None else PUBLIC[status],
            trigger=given["triggered_by"],
            top_level=True,
            limit=given["limit"],
        )
        page = await self._services.store.executions.find(query)
        executions = [listed(record) for record in page.items]
        return {"executions": executions, "total_count": page.total, "filters_applied": given}


class GetExecutionResult:
    """Answers calls of ``get_execution_result``."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> dict[str, Any]:
        """One execution, ended or not.

        Returns:
            ``execution``; in it ``transcript``, if asked for: the request, then what ran inside in order of start.

        Raises:
            InvalidArguments: An argument is not what the definition says, or the caller has no such execution.
        """
        given = checked(GET_EXECUTION_RESULT, arguments)
        scope = _scope(run.session)
        record = await self._services.store.executions.get(ExecutionId(given["execution_id"].strip()), scope)
        if record is None or record.agent != given["agent_name"]:
            raise InvalidArguments(
                f"get_execution_result: agent {given['agent_name']!r} has no execution {given['execution_id']!r} that "
                "you can see; list_recent_executions shows the ids and agents of those you can."
            )
        shown = detailed(record)
        if given["include_transcript"]:
            shown["transcript"] = await self._transcript(record, scope)
        return {"execution": shown}

    async def _transcript(self, record: ExecutionRecord, scope: Scope) -> list[dict[str, Any]]:
        children: list[ExecutionRecord] = []
        cursor, total = None, 0
        while len(children) < LONGEST_TRANSCRIPT:
            query = ExecutionQuery(scope=scope, parent=record.id, limit=PAGE, cursor=cursor)
            page = await self._services.store.executions.find(query)
            children += page.items
            cursor, total = page.cursor, page.total
            if cursor is None:
                break
        left_out = [{"type": "left_out", "executions": total - len(children)}] if cursor is not None else []
        return [asked(record), *left_out, *(inside(child) for child in reversed(children))]


def _scope(session: Session) -> Scope:
    return Scope(principals=None if SYSTEM in session.scopes else frozenset({session.principal}))
