"""The MCP extension ``io.modelcontextprotocol/tasks`` over work in the background.

A client that declares it gets a task for what the gateway's own tools leave in the background: the execution's id is
the task's. Tasks that servers give out are theirs, and requests about them are passed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_core.kernel.identities import may_act_on
from pml_core.servers.direct import tool_result
from pml_hookspecs import AccessEvent, ExecutionId, RawObject, RpcError, Status, UnauthenticatedError
from pml_hookspecs.protocol import INVALID_PARAMS, MISSING_CLIENT_CAPABILITY

from .tool_calls import failed_result

if TYPE_CHECKING:
    from pml_core.background.executions import Background
    from pml_core.kernel.identities import AccessWatchers, KnownIdentities
    from pml_hookspecs import ExecutionRecord, Session, Store

EXTENSION = "io.modelcontextprotocol/tasks"
METHODS = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
POLL_INTERVAL_MS = 1000
MARK = b'"execution_id"'
"""What the results of tools have that leave something in the background."""
WAITING = ("pending", "running")
LONGEST_ID = 80
"""Characters of what a client gives for an id that are shown or kept."""


def declares(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client, by what it says that it can do, knows tasks."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, Mapping) and isinstance(extensions.get(EXTENSION), Mapping)


def check_declared(capabilities: Mapping[str, Any]) -> None:
    """See that a client said that it knows tasks.

    Raises:
        RpcError: It did not.
    """
    if not declares(capabilities):
        data: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        raise RpcError(MISSING_CLIENT_CAPABILITY, "Missing required client capability", data)


def with_tasks(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """What clients are told that they may use, tasks among it."""
    return {**capabilities, "extensions": {**capabilities.get("extensions", {}), EXTENSION: {}}}


class Tasks:
    """Answers requests about the gateway's own tasks."""

    def __init__(
        self, store: Store, background: Background, identities: KnownIdentities, access_watchers: AccessWatchers
    ) -> None:
        self._store, self._background = store, background
        self._identities, self._access_watchers = identities, access_watchers

    def made_of(self, result: Mapping[str, Any], capabilities: Mapping[str, Any]) -> Mapping[str, Any]:
        """``result``, or the task that it tells of, for a client that knows tasks."""
        if not isinstance(result, RawObject) or MARK not in result.raw or not declares(capabilities):
            return result
        told = result.get("structuredContent")
        id = told.get("execution_id") if isinstance(told, Mapping) and told.get("status") == "pending" else None
        if not isinstance(id, str) or not self._background.has(ExecutionId(id)):
            return result
        now = _zulu(datetime.now(UTC))
        return {"resultType": "task", **_task(id, "working", now, now)}

    async def answer(
        self, method: str, params: RawObject, session: Session, capabilities: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """The answer to a request about a task; None when the caller sees no such task of the gateway's.

        Raises:
            RpcError: The client did not say that it knows tasks, or what it wants takes more than to see the task.
        """
        id = params.get("taskId")
        if not isinstance(id, str):
            raise RpcError(INVALID_PARAMS, f"{method} needs a taskId")
        try:
            scope = await self._identities.scope(session, results=True)
        except UnauthenticatedError as exc:
            raise await self._denied(method, session, id, "access.unauthenticated", str(exc)) from exc
        record = await self._store.executions.get(ExecutionId(id), scope)
        if record is None or record.parent is not None:
            return None
        check_declared(capabilities)
        if method == "tasks/get":
            await self._tell(AccessEvent(kind="query", target=method, session=session, execution=record.id))
            return _detailed(record)
        if not may_act_on(session, record):
            message = "The task is not yours: you may see it, and nothing more"
            raise await self._denied(method, session, id, "policy.denied", message)
        if method == "tasks/cancel":
            await self._background.stop(record.id)
        return {}

    async def _denied(self, method: str, session: Session, id: str, code: str, message: str) -> RpcError:
        """The answer to one that may not, once that is noted."""
        execution = id[:LONGEST_ID]
        await self._tell(
            AccessEvent(kind="denied", target=method, session=session, execution=execution, code=code, message=message)
        )
        return RpcError(INVALID_PARAMS, message)

    async def _tell(self, event: AccessEvent) -> None:
        await self._access_watchers.tell(event)


def _detailed(record: ExecutionRecord) -> dict[str, Any]:
    began = _zulu(record.started_at)
    if record.status in WAITING:
        return _task(record.id, "working", began, began)
    ended = _zulu(record.started_at + timedelta(milliseconds=record.duration_ms or 0))
    if record.status == Status.CANCELLED:
        return _task(record.id, "cancelled", began, ended)
    return {**_task(record.id, "completed", began, ended), "result": _result(record)}


def _result(record: ExecutionRecord) -> Mapping[str, Any]:
    """The ``CallToolResult`` that the client would have had if it had waited, as far as history keeps it."""
    failure, output = record.failure, record.response
    if failure is not None and output is None:
        return failed_result(failure)
    if record.kind == "tool" and isinstance(output, Mapping) and "content" in output:
        return output
    return tool_result(output, is_error=failure is not None and record.status != Status.INPUT_REQUIRED)


def _task(id: str, status: str, created_at: str, updated_at: str) -> dict[str, Any]:
    return {
        "taskId": id,
        "status": status,
        "createdAt": created_at,
        "lastUpdatedAt": updated_at,
        "ttlMs": None,
        "pollIntervalMs": POLL_INTERVAL_MS,
    }


def _zulu(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
