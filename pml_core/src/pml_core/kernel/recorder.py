"""What every execution leaves in the store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pml_hookspecs import (
    CapabilityRun,
    CodeRun,
    ExecutionId,
    ExecutionRecord,
    Failure,
    Json,
    Outcome,
    PluginTask,
    RawObject,
    RecordStatus,
    Scope,
    ServerRequest,
    Task,
    ToolCall,
    Workflow,
    encode,
    replace,
)
from pml_kit.plain import to_plain

if TYPE_CHECKING:
    from pml_hookspecs import Executions
    from pml_kit.system.redaction import Redactor

    from .execution_run import ExecutionRun

OF_CODE = ("language", "source", "inputs", "tools", "timeout_s")
LIMITS = ("max_parallel", "timeout_s", "max_tool_calls", "max_cost_usd")
DIGITS = 9
"""Of a difference of costs: more than any store keeps, and fewer than a float gets wrong."""
HEAD_BYTES = 2048
"""How much of an overlong request or response is kept."""


def _own_cost(run: ExecutionRun, cost_usd: float | None) -> float | None:
    """Without what is recorded of the agents that ran inside [USD]."""
    return round(max(cost_usd - run.agents_usd, 0.0), DIGITS) if cost_usd and run.agents_usd else cost_usd


def kind_and_target(task: Task) -> tuple[str, str]:
    """How history names a task."""
    if isinstance(task, ToolCall):
        return "tool", task.tool
    if isinstance(task, CodeRun):
        return "code", task.language
    if isinstance(task, CapabilityRun):
        return "capability", task.capability_id
    if isinstance(task, PluginTask):
        return task.type, ""
    if isinstance(task, ServerRequest):
        return task.kind, task.name
    return "workflow", ""


def request_of(task: Task) -> Any:
    """What was asked: a tool's arguments, a sandbox's inputs and source, a workflow's tasks."""
    if isinstance(task, ToolCall):
        return task.arguments
    if isinstance(task, CodeRun):
        return {name: value for name in OF_CODE if (value := getattr(task, name)) is not None}
    if isinstance(task, (CapabilityRun, PluginTask)):
        return task.inputs
    if isinstance(task, ServerRequest):
        return {"method": task.method, "params": task.params}
    limits = {name: value for name in LIMITS if (value := getattr(task, name)) is not None}
    asked = {name: value for name, value in (("return", task.returns), ("durable", task.durable)) if value}
    return {"tasks": [_node(node) for node in task.tasks], **_step(task), **limits, **asked}


def _node(task: Task) -> dict[str, Any]:
    kind, target = kind_and_target(task)
    node = {"id": task.id, "type": kind, "target": target, "depends_on": list(task.depends_on)}
    return {**node, "request": request_of(task), **_step(task)}


def _step(task: Task) -> dict[str, Any]:
    undo = task.step.compensate
    return {**to_plain(task.step), **({} if undo is None else {"compensate": _node(undo)})}


class Recorder:
    """Turns a task, its run and its outcome into a record, secrets out, overlong parts cut."""

    def __init__(
        self, executions: Executions, redactor: Redactor, limit_bytes: int, log: Any, *, full: bool = False
    ) -> None:
        """``full``: every execution is answered once its row is durable."""
        self._executions, self._redactor, self._limit_bytes = executions, redactor, limit_bytes
        self._log, self._full = log, full

    def started(self, task: Task, run: ExecutionRun) -> None:
        """Record that something long has begun."""
        self._executions.record(self.row(task, run, "running", None))

    def queued(self, task: Task, run: ExecutionRun) -> None:
        """Record that something waits for its turn; whoever gives turns says when it has begun."""
        self._executions.record(self.pending(task, run))

    async def begun(self, id: ExecutionId) -> None:
        """Record that what is pending has begun, before it does; so nobody takes it for something that has not."""
        try:
            record = await self._executions.get(id, Scope(principals=None))
            if record is not None and record.status == "pending":
                await self.keep(replace(record, status="running"), first=True)
        except Exception as exc:  # what runs matters more
            self._log.warning("not recorded as running", execution=id, problem=str(exc))

    async def keep(self, record: ExecutionRecord, *, first: bool) -> None:
        """Record the end; ``first``: it is durable before it is answered.

        What has happened is answered also when it cannot be recorded.
        """
        if not (first or self._full):
            self._executions.record(record)
            return
        try:
            await self._executions.put(record)
        except asyncio.CancelledError:
            self._executions.record(record)
            raise
        except Exception as exc:
            self._log.error("an execution is not recorded yet", execution=record.id, problem=str(exc))
            self._executions.record(record)

    async def began_for_real(self, id: ExecutionId) -> bool:
        """Whether there is an execution ``id`` that is no rehearsal; so it is taken where that cannot be known."""
        try:
            record = await self._executions.get(id, Scope(principals=None))
        except Exception as exc:
            self._log.error("it cannot be known how an execution began", execution=id, problem=str(exc))
            return True
        return record is not None and not record.dry_run

    def pending(self, task: Task, run: ExecutionRun) -> ExecutionRecord:
        """Of an execution that has not begun."""
        return self.row(task, run, "pending", None)

    def row(self, task: Task, run: ExecutionRun, status: RecordStatus, outcome: Outcome | None) -> ExecutionRecord:
        """What history has of it; of its end, for :meth:`keep`."""
        kind, target = kind_and_target(task)
        session, options, noted = run.session, run.terms.options, (run.notes or {}).get
        return ExecutionRecord(
            id=run.id,
            parent=run.parent,
            kind=kind,
            target=target,
            principal=session.principal,
            agent=options.agent or session.actor,
            as_agent=bool(options.agent or session.agent),
            trigger=options.trigger,
            intent=self._redactor.text(run.intent),
            status=status,
            started_at=run.started_at,
            duration_ms=None if outcome is None else outcome.duration_ms,
            dry_run=run.dry_run,
            request=self._request(task),
            response=None if outcome is None else self._json(outcome.output),
            failure=None if outcome is None else self._failure(outcome.failure),
            cost_usd=None if outcome is None else _own_cost(run, outcome.cost_usd),
            tool_calls=tuple(run.tool_calls),
            endpoint=session.endpoint,
            mode=session.mode,
            access_key=session.access_key,
            schedule=options.schedule,
            tokens_in=noted("tokens_in"),
            tokens_out=noted("tokens_out"),
            context_used=noted("context_used"),
            context_max=noted("context_max"),
            transcript=(lines := noted("transcript"))
            and [RawObject(self._redactor.raw(encode(line))) for line in lines],
        )

    def _request(self, task: Task) -> RawObject:
        """What was asked; that a plan is durable also when it is too long to be kept whole."""
        kept = self._object(request_of(task))
        if isinstance(task, Workflow) and task.durable and kept.get("durable") is not True:
            return RawObject.of({**kept, "durable": True})
        return kept

    def _failure(self, failure: Failure | None) -> Failure | None:
        """Messages may quote arguments."""
        if failure is None:
            return None
        message = self._redactor.text(failure.message)
        if len(message) > HEAD_BYTES:
            message = f"{message[:HEAD_BYTES]}… ({len(message)} characters)"
        return Failure(failure.code, message, failure.retryable, self._object(failure.details).value)

    def _object(self, value: Any) -> RawObject:
        raw = encode(value)
        kept = self._kept(raw)
        return value if kept is raw and type(value) is RawObject else RawObject(kept)

    def _json(self, value: Json) -> Json:
        if value is None or type(value) is RawObject:
            return None if value is None else self._object(value)
        raw = self._kept(encode(value))
        kept: Json = RawObject(raw) if raw[:1] == b"{" else RawObject(b'{"value":' + raw + b"}")["value"]
        return kept

    def _kept(self, raw: bytes) -> bytes:
        """``raw`` without secrets, or its head when it is overlong."""
        if len(raw) <= self._limit_bytes:
            return self._redactor.raw(raw)
        # Secrets are taken out before the last cut, so that none is cut in two and missed.
        head = self._redactor.raw(raw[: 2 * HEAD_BYTES])[:HEAD_BYTES].decode(errors="replace")
        return encode({"truncated": True, "size_bytes": len(raw), "head": head})
