"""The MCP extension ``io.modelcontextprotocol/tasks`` over work in the background.

A client that declares it gets a task for what the gateway's own tools leave in the background: the execution's id is
the task's. Tasks that servers give out are theirs, and requests about them are passed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_catalog.server_views import SYSTEM
from pml_hookspecs import (
    ExecutionId,
    RawObject,
    RpcError,
    Status,
    Step,
    ToolCall,
    ToolId,
    UnauthenticatedError,
    Workflow,
)
from pml_hookspecs.tasks import ONCE
from pml_kit.mcp.protocol import INVALID_PARAMS, MISSING_CLIENT_CAPABILITY
from pml_kit.offers import AccessEvent

from .tool_calls import failed_result, value_result

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord, Session, Store, Task
    from pml_mcp.ports import AccessWatchers, Background, Identities

    from .answers import Answers

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
        self,
        store: Store,
        background: Background,
        identities: Identities,
        access_watchers: AccessWatchers,
        answers: Answers,
    ) -> None:
        self._store, self._background, self._answers = store, background, answers
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
            return await self._detailed(record, session)
        if not may_act_on(session, record):
            message = "The task is not yours: you may see it, and nothing more"
            raise await self._denied(method, session, id, "policy.denied", message)
        if method == "tasks/cancel":
            await self._background.stop(record.id)
        return {}

    async def _detailed(self, record: ExecutionRecord, session: Session) -> dict[str, Any]:
        began = _zulu(record.started_at)
        if record.status in WAITING:
            return _task(record.id, "working", began, began)
        ended = _zulu(record.started_at + timedelta(milliseconds=record.duration_ms or 0))
        if record.status == Status.CANCELLED:
            return _task(record.id, "cancelled", began, ended)
        task = _task_of(record)
        result = await self._answers.shaped(await self._result(record, task), task, session)
        return {**_task(record.id, "completed", began, ended), "result": result}

    async def _result(self, record: ExecutionRecord, task: Task) -> Mapping[str, Any]:
        """The ``CallToolResult`` that the client would have had if it had waited, as far as history keeps it."""
        failure, output = record.failure, record.response
        if failure is not None and output is None:
            return failed_result(failure)
        if record.kind == "tool" and isinstance(output, Mapping) and "content" in output:
            return output
        is_error = failure is not None and record.status != Status.INPUT_REQUIRED
        return value_result(await self._answers.selected(output, task), is_error=is_error)

    async def _denied(self, method: str, session: Session, id: str, code: str, message: str) -> RpcError:
        """The answer to one that may not, once that is noted."""
        execution = id[:LONGEST_ID]
        await self._tell(
            AccessEvent(kind="denied", target=method, session=session, execution=execution, code=code, message=message)
        )
        return RpcError(INVALID_PARAMS, message)

    async def _tell(self, event: AccessEvent) -> None:
        await self._access_watchers.tell(event)


def may_act_on(session: Session, record: ExecutionRecord) -> bool:
    """Whether ``session`` may stop an execution, which takes more than to see it.

    Those of its principal, and those of the agent that its key belongs to; with the scope ``system`` all.
    """
    own = bool(session.agent) and record.as_agent and record.agent == session.agent
    return own or record.principal == session.principal or SYSTEM in session.scopes


def _task_of(record: ExecutionRecord) -> Task:
    """What ran, as far as who shapes answers looks at it; what history cut off was never asked for."""
    if record.kind == "tool":
        return ToolCall(id="call", tool=ToolId(record.target))
    return _plan_of("call", record.request)


def _plan_of(id: str, plan: Mapping[str, Any]) -> Workflow:
    nodes, returns = plan.get("tasks"), plan.get("return")
    tasks = [_node_of(one) for one in nodes if isinstance(one, Mapping)] if isinstance(nodes, list) else []
    asked = tuple(map(str, returns)) if isinstance(returns, list) else ()
    return Workflow(id=id, tasks=tuple(tasks), returns=asked, step=_step_of(plan))


def _node_of(node: Mapping[str, Any]) -> Task:
    id, request = str(node.get("id")), node.get("request")
    if node.get("type") == "workflow" and isinstance(request, Mapping):
        return _plan_of(id, request)
    return ToolCall(id=id, tool=ToolId(""), step=_step_of(node))


def _step_of(plan: Mapping[str, Any]) -> Step:
    return Step(select=select) if isinstance(select := plan.get("select"), str) else ONCE


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
