"""The one way through: every task, whoever made it, is resolved, traced, wrapped, run and recorded here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from pml_hookspecs import (
    CallNext,
    ExecutionId,
    Failure,
    InvalidArguments,
    MetaTool,
    Outcome,
    Run,
    Session,
    Status,
    Task,
    ToolCall,
    ToolId,
    Trigger,
    Workflow,
)

from .chain import EXECUTOR_FAULT
from .identifiers import execution_id, span_id, trace_id

if TYPE_CHECKING:
    from .catalog import LiveCatalog
    from .recorder import Recorder
    from .tracing import Tracing

ProgressSink = Callable[[float, float | None, str], None]
DEEPEST = 32
"""Tasks within tasks; deeper is taken for a plan that calls itself."""
TOO_DEEP = Failure("task.too_deep", f"{DEEPEST} tasks within tasks; the plan seems to call itself.")


class Asked(TypedDict, total=False):
    """How a client wants its task run."""

    intent: str
    """What it is for; ``""`` when not said."""
    dry_run: bool | None
    """None, or left out: as the task or the configuration says."""
    deadline: datetime | None
    """UTC."""
    trigger: Trigger
    progress: ProgressSink | None


class ExecutionRun:
    """One execution. Implements :class:`pml_hookspecs.Run`."""

    __slots__ = (
        "_dispatcher", "_progress", "deadline", "depth", "dry_run", "id", "intent", "parent", "session", "started_at",
        "tool_calls", "trace_id", "trigger",
    )  # fmt: skip

    def __init__(
        self,
        dispatcher: Dispatcher,
        above: ExecutionRun | None,
        *,
        session: Session,
        intent: str,
        dry_run: bool,
        deadline: datetime | None,
        trigger: Trigger,
        progress: ProgressSink | None,
    ) -> None:
        self._dispatcher, self._progress = dispatcher, progress
        self.id = execution_id()
        self.parent: ExecutionId | None = None if above is None else above.id
        self.depth: int = 0 if above is None else above.depth + 1
        self.trace_id: str = trace_id(self.id) if above is None else above.trace_id
        self.session, self.intent, self.dry_run = session, intent, dry_run
        self.deadline, self.trigger = deadline, trigger
        self.started_at = datetime.now(UTC)
        self.tool_calls: list[str] = []

    @property
    def span_id(self) -> str:
        """Of this execution's one span."""
        return span_id(self.id)

    @property
    def parent_span_id(self) -> str | None:
        """None for what a client asked for."""
        return None if self.parent is None else span_id(self.parent)

    @property
    def wants_progress(self) -> bool:
        """Whether the client asked to be told."""
        return self._progress is not None

    async def dispatch(self, task: Task) -> Outcome:
        """Run ``task`` as a child of this execution."""
        return await self._dispatcher.dispatch(task, self)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell the client, if it asked to be told."""
        if self._progress is not None:
            self._progress(done, total, message)


class Dispatcher:
    """Runs tasks through the chain."""

    def __init__(
        self,
        catalog: LiveCatalog,
        meta_tools: Mapping[str, MetaTool],
        tracing: Tracing,
        recorder: Recorder,
        log: Any,
        *,
        dry_run: bool,
        servers_tried: Callable[[], Awaitable[None]],
    ) -> None:
        """Without :attr:`chain` it cannot run anything yet.

        Args:
            meta_tools: The gateway's own tools by name.
            servers_tried: Waits, within a bound, for servers whose tools were never seen.
            dry_run: Whether tasks that do not say themselves are rehearsed.
        """
        self._catalog, self._meta_tools, self._tracing, self._recorder = catalog, meta_tools, tracing, recorder
        self._log, self._dry_run, self.servers_tried = log, dry_run, servers_tried
        self.chain: CallNext = _not_started
        """Set once by the gateway when the wrappers are folded."""

    async def start(self, task: Task, session: Session, **asked: Unpack[Asked]) -> Outcome:
        """Run a task for a client."""
        return (await self.start_resolved(task, session, **asked))[1]

    async def start_resolved(
        self,
        task: Task,
        session: Session,
        *,
        intent: str = "",
        dry_run: bool | None = None,
        deadline: datetime | None = None,
        trigger: Trigger = "mcp",
        progress: ProgressSink | None = None,
    ) -> tuple[Task, Outcome]:
        """As :meth:`start`; also gives the task that was run, which may stand behind the one given."""
        task, problem = self._of_server(task) or await self._resolve(task, session)
        if isinstance(task, Workflow):
            intent = task.intent or intent
            dry_run = dry_run if task.dry_run is None else task.dry_run
        run = ExecutionRun(
            self,
            None,
            session=session,
            intent=intent,
            dry_run=self._dry_run if dry_run is None else dry_run,
            deadline=deadline,
            trigger=trigger,
            progress=progress,
        )
        return task, await self._execute(task, run, problem)

    async def dispatch(self, task: Task, above: ExecutionRun) -> Outcome:
        """Run a task for another one. A rehearsal stays one all the way down."""
        task, problem = self._of_server(task) or await self._resolve(task, above.session)
        if above.depth >= DEEPEST:
            problem = TOO_DEEP
        run = ExecutionRun(
            self,
            above,
            session=above.session,
            intent=(task.intent if isinstance(task, Workflow) else "") or above.intent,
            dry_run=above.dry_run or (isinstance(task, Workflow) and task.dry_run is True),
            deadline=above.deadline,
            trigger=above.trigger,
            progress=None,
        )
        outcome = await self._execute(task, run, problem)
        if isinstance(task, ToolCall):
            above.tool_calls.append(task.tool)
        return outcome

    def _of_server(self, task: Task) -> tuple[Task, None] | None:
        """A call of a server's tool under its canonical id; None for all else, of which there is more to find out."""
        if not isinstance(task, ToolCall):
            return None
        entry = self._catalog.resolve(task.tool)
        return None if entry is None or entry.own else (_called(task, entry.id), None)

    async def _resolve(self, task: Task, session: Session) -> tuple[Task, Failure | None]:
        """``task`` under its canonical id; a tool that stands for a task becomes it, if the caller may have it."""
        if isinstance(task, ToolCall):
            # A tool that nobody has, or that speaks of the catalog, waits for servers that are still starting.
            await self.servers_tried()
        for _ in range(DEEPEST):
            if not isinstance(task, ToolCall):
                return task, None
            entry = self._catalog.resolve(task.tool)
            if entry is None:
                return task, None
            task = _called(task, entry.id)
            meta = self._meta_tools.get(entry.name) if entry.own else None
            if meta is None or meta.task is None or not self._catalog.allows(entry, session):
                return task, None
            try:
                task = _in_place_of(task, meta.task(task.arguments))
            except InvalidArguments as exc:
                return task, Failure("arguments.invalid", str(exc))
            except Exception:
                self._log.exception("a tool of the gateway's own failed to make its task", tool=entry.id)
                return task, Failure("tool.fault", f"The gateway's tool {entry.name!r} failed; see the gateway's log.")
        return task, TOO_DEEP

    async def _execute(self, task: Task, run: ExecutionRun, problem: Failure | None) -> Outcome:
        span = self._tracing.start(task, run)
        outcome: Outcome | None = None
        if not isinstance(task, ToolCall):
            self._recorder.started(task, run)
        try:
            if problem is not None:
                outcome = self._over(task, run, Status.ERROR, problem)
            elif run.deadline is None:
                outcome = await self.chain(task, run)
            else:
                outcome = await self._in_time(task, run, run.deadline)
        finally:
            if outcome is None:  # only cancellation gets out of the chain
                failure = Failure("task.cancelled", "Cancelled before it ended.")
                outcome = self._over(task, run, Status.CANCELLED, failure)
            outcome = self._record(task, run, outcome)
            self._tracing.end(span, outcome)
        return outcome

    def _record(self, task: Task, run: ExecutionRun, outcome: Outcome) -> Outcome:
        """Record the end; an output that is not JSON is a fault of whoever made it."""
        try:
            self._recorder.ended(task, run, outcome)
        except (TypeError, ValueError) as exc:
            self._log.error("the output of a task is not JSON", task=task.id, execution=run.id, problem=str(exc))
            outcome = self._over(task, run, Status.ERROR, Failure("executor.fault", EXECUTOR_FAULT))
            self._recorder.ended(task, run, outcome)
        return outcome

    async def _in_time(self, task: Task, run: ExecutionRun, deadline: datetime) -> Outcome:
        try:
            async with asyncio.timeout((deadline - datetime.now(UTC)) / timedelta(seconds=1)):
                return await self.chain(task, run)
        except TimeoutError:
            return self._over(
                task, run, Status.TIMED_OUT, Failure("task.timed_out", "The deadline passed.", retryable=True)
            )

    def _over(self, task: Task, run: ExecutionRun, status: Status, failure: Failure) -> Outcome:
        return ended(task, run.started_at, status, failure=failure)


def _not_started(_task: Task, _run: Run) -> Awaitable[Outcome]:
    raise RuntimeError("the gateway has not started")


def _called(call: ToolCall, tool: ToolId) -> ToolCall:
    """``call`` with the tool under its canonical id."""
    if call.tool == tool:
        return call
    # Not dataclasses.replace, which costs as much as resolving ten times over.
    return ToolCall(id=call.id, tool=tool, arguments=call.arguments, extra=call.extra, needs=call.needs)


def _in_place_of(call: ToolCall, task: Task) -> Task:
    """``task`` where ``call`` stood: its id, its place in a workflow, what came along with it."""
    placed = replace(task, id=call.id, needs=call.needs)
    return replace(placed, extra={**call.extra, **placed.extra}) if isinstance(placed, ToolCall) else placed


def ended(
    task: Task, started_at: datetime, status: Status, *, output: Any = None, failure: Failure | None = None
) -> Outcome:
    """An outcome that ends now."""
    duration_ms = round((datetime.now(UTC) - started_at).total_seconds() * 1000)
    return Outcome(
        task_id=task.id, status=status, started_at=started_at, duration_ms=duration_ms, output=output, failure=failure
    )
