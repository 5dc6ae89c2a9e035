"""``cancel_execution``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pml_hookspecs import ExecutionId, InvalidArguments

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services

UNDER_WAY = ("pending", "running")


class CancelExecution:
    """Answers calls of ``cancel_execution``."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def __call__(self, arguments: Mapping[str, Any], run: Run) -> Mapping[str, Any]:
        """Stop what the caller may see the result of.

        Raises:
            InvalidArguments: There is no such execution, or none of the caller's.
        """
        given = arguments.get("execution_id")
        if not isinstance(given, str) or not given.strip():
            raise InvalidArguments("cancel_execution: execution_id must be the id of an execution")
        id = ExecutionId(given.strip())
        scope = await self._services.scope(run.session, results=True)
        record = await self._services.store.executions.get(id, scope)
        if record is None:
            raise InvalidArguments(f"cancel_execution: no execution {id!r} that you can see")
        stopped = record.status in UNDER_WAY and await self._services.stop(id)
        after = await self._services.store.executions.get(id, scope)
        return {
            "execution_id": id,
            "cancelled": bool(stopped),
            "status": str((record if after is None else after).status),
        }
