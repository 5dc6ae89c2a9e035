"""``cancel_execution``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExecutionId, InvalidArguments, UnauthenticatedError

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord, Run, Services, Session

UNDER_WAY = ("pending", "running")
SYSTEM = "system"
"""Scope of those who may cancel everybody's."""


class CancelExecution:
    """Answers calls of ``cancel_execution``."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        """Stop what is the caller's own; that others may see it does not let them.

        Raises:
            InvalidArguments: There is no such execution, or none of the caller's, or the caller has not said who it is.
        """
        given = arguments.get("execution_id")
        if not isinstance(given, str) or not given.strip():
            raise InvalidArguments("cancel_execution: execution_id must be the id of an execution")
        id = ExecutionId(given.strip())
        try:
            scope = await self._services.scope(run.session, results=True)
        except UnauthenticatedError as exc:
            raise InvalidArguments(str(exc)) from None
        record = await self._services.store.executions.get(id, scope)
        if record is None or not _may_cancel(run.session, record):
            raise InvalidArguments(f"cancel_execution: no execution {id!r} that you may cancel")
        stopped = record.status in UNDER_WAY and await self._services.stop(id)
        after = await self._services.store.executions.get(id, scope)
        return {
            "execution_id": id,
            "cancelled": bool(stopped),
            "status": str((record if after is None else after).status),
        }


def _may_cancel(session: Session, record: ExecutionRecord) -> bool:
    own = bool(session.agent) and record.as_agent and record.agent == session.agent
    return own or record.principal == session.principal or SYSTEM in session.scopes
