"""The one way through: every task, whoever made it, is resolved, traced, wrapped, run and recorded here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_catalog.lookup import Lookup
from pml_hookspecs import (
    CallNext,
    CodeRun,
    DryRun,
    ExecutionId,
    ExecutionRecord,
    Failure,
    InvalidArguments,
    Journal,
    Outcome,
    Run,
    RunOptions,
    ServerRequest,
    Session,
    Status,
    Task,
    ToolCall,
    ToolId,
    Workflow,
    replace,
)
from pml_kit.mcp.effects import ANY, ORDER, Effects, bounded, effects_of_tool
from pml_kit.outcomes import ended
from pml_kit.system.clock import Clock
from pml_mcp.wire.client import NOT_ASKED, current_client, current_principal, unattended
from pml_settings.rehearsals import asked_of, wanted_of

from .chain import ELSEWHERE, EXECUTOR_FAULT
from .execution_run import Budget, ExecutionRun, JournalScope, Terms

if TYPE_CHECKING:
    from pml_catalog.live import LiveCatalog
    from pml_catalog.own_tools import OwnTools
    from pml_settings.rehearsals import Rehearsals

    from .recorder import Recorder
    from .tracing import Tracing

DEEPEST = 32
"""Tasks within tasks; deeper is taken for a plan that calls itself."""
Resolved: TypeAlias = tuple[Task, Failure | None, Effects]
"""What runs, why it does not, and what it may do at most."""
TOO_DEEP = Failure("task.too_deep", f"{DEEPEST} tasks within tasks; the plan seems to call itself.")


class Dispatcher:
    """Runs tasks through the chain."""

    def __init__(
        self,
        catalog: LiveCatalog,
        own_tools: OwnTools,
        tracing: Tracing,
        recorder: Recorder,
        log: Any,
        *,
        rehearsals: Rehearsals,
        servers_settled: Callable[[str | None], Awaitable[None]],
        read_again: Callable[[str], Awaitable[None]],
    ) -> None:
        """Without :attr:`chains` it cannot run anything yet.

        Args:
            own_tools: Those that stand for tasks become them.
            servers_settled: Waits, within a bound, for the servers that may have the tool of a name; None: for the
                whole catalog.
            read_again: Has a server's list of tools read again, within a bound.
            rehearsals: Says of each task whether it is one.
        """
        self._catalog, self._own_tools, self.tracing, self._recorder = catalog, own_tools, tracing, recorder
        self._log, self.rehearsals = log, rehearsals
        self._lookup = Lookup(catalog, own_tools, servers_settled, read_again)
        self.chains: tuple[CallNext, CallNext] = (_not_started, _not_started)
        """Set once by the gateway: all wrappers, and those that are around calls that clients make by themselves."""
        self.in_background: Callable[[Task, Session, RunOptions], Awaitable[ExecutionId]] = _no_background
        """Set once by the gateway: begins with a task that nobody waits for."""
        self.begins: Callable[[ExecutionId], Awaitable[None]] = _nothing
        """Set once by the gateway: awaited before something begins that waited for its turn."""
        self.may_record: Callable[[ExecutionId, datetime], Awaitable[bool]] = _always
        """Set once by the gateway: whether the end of what began then is still for this gateway to record."""

    async def start(self, task: Task, session: Session, options: RunOptions = RunOptions()) -> Outcome:
        """Run a task for a client."""
        return (await self.start_resolved(task, session, options))[1]

    async def start_resolved(self, task: Task, session: Session, options: RunOptions) -> tuple[Task, Outcome]:
        """As :meth:`start`; also gives the task that was run, which may stand behind the one given."""
        named, of_server = task, self._of_server(task, session)
        task, problem, effects = of_server or await self.resolve(task, session)
        if effects != ANY:
            session = bounded(session, effects)
        if isinstance(named, ToolCall) and "requestState" in named.extra and not self._is_of_server(task):
            problem = problem or NOT_ASKED
        if (id := options.id) is not None and (refusal := self.rehearsals.refusal(session)) is not None:
            problem = problem or (refusal if await self._recorder.began_for_real(id) else None)
        if isinstance(task, Workflow) and not task.wait:
            return task, await self._in_background(task, session, options, problem)
        run = self._run_of(task, session, options)
        run.indirect = of_server is None and self._stands_for_more(named, session)
        if options.journal is not None:
            run.kept = JournalScope(options.journal, "")
        return task, await self._execute(task, run, problem)

    async def start_unattended(self, task: Task, session: Session, options: RunOptions) -> Outcome:
        """Run a task that no client waits for: none is there to be asked anything."""
        with unattended(session.principal):
            return (await self.start_resolved(task, session, options))[1]

    async def begin(self, id: ExecutionId) -> None:
        """Record that what waited for its turn begins; it must not begin before this returns."""
        await self.begins(id)
        await self._recorder.begun(id)

    def pending(self, task: Task, session: Session, options: RunOptions) -> ExecutionRecord:
        """The row of an execution that has not begun yet."""
        return self._recorder.pending(task, self._run_of(task, session, options))

    def _run_of(self, task: Task, session: Session, options: RunOptions) -> ExecutionRun:
        intent = intent_of(task) or options.intent
        agent = self._own_tools.agent_of(task) or options.agent
        if intent != options.intent or agent != options.agent:
            options = replace(options, intent=intent, agent=agent)
        dry_run = self.rehearsals.mode(session, asked_of(task, options.dry_run))
        return ExecutionRun(self, None, task, Terms(session, options, dry_run, current_client.get()))

    async def _in_background(
        self, task: Workflow, session: Session, options: RunOptions, problem: Failure | None
    ) -> Outcome:
        """Answer with the id of an execution that goes on by itself."""
        started_at = datetime.now(UTC)
        if problem is not None:
            return ended(task, started_at, Status.ERROR, failure=problem)
        try:
            id = await self.in_background(task, session, options)
        except Exception as exc:
            self._log.error("work in the background could not be recorded, and was not begun", problem=str(exc))
            # What the store says may name its address.
            message = "It was not begun: it cannot be recorded; the gateway's log says why."
            failure = Failure("execution.unrecorded", message, retryable=True)
            return ended(task, started_at, Status.ERROR, failure=failure)
        return ended(task, started_at, Status.OK, output={"execution_id": id, "status": "pending"})

    async def dispatch(self, task: Task, above: ExecutionRun, journal: Journal | None = None) -> Outcome:
        """Run a task for another one. A rehearsal stays one all the way down.

        Args:
            task: What to run.
            above: Who dispatches it.
            journal: Keeps what ``task`` dispatches; None for the one that keeps what ``above`` dispatches.
        """
        # Code in a sandbox calls tools from a context of its own; they are called for the client all the same.
        token = None if current_client.get() is above.terms.client else current_client.set(above.terms.client)
        principal = current_principal.set(above.session.principal)
        try:
            if (kept := above.kept) is None or journal is not None:
                return await self._dispatch(task, above, None if journal is None else JournalScope(journal, ""))
            path = kept.path(task)
            below = JournalScope(kept.journal, path)
            return await kept.journal(path, task, lambda: self._dispatch(task, above, below))
        finally:
            current_principal.reset(principal)
            if token is not None:
                current_client.reset(token)

    async def _dispatch(self, task: Task, above: ExecutionRun, kept: JournalScope | None) -> Outcome:
        task, problem, effects = self._of_server(task, above.session) or await self.resolve(task, above.session)
        if above.depth >= DEEPEST:
            problem = TOO_DEEP
        intent, terms = intent_of(task), above.terms
        dry_run = stricter(terms.dry_run, wanted_of(task))
        if intent or dry_run is not terms.dry_run:
            options = replace(terms.options, intent=intent) if intent else terms.options
            terms = terms._replace(options=options, dry_run=dry_run)
        if agent := self._own_tools.agent_of(task):
            terms = terms._replace(options=replace(terms.options, agent=agent))
        if effects != ANY:
            terms = terms._replace(session=bounded(terms.session, effects))
        run = ExecutionRun(self, above, task, terms)
        # What code dispatches is kept, too: it begins anew when it is gone on with.
        run.kept = None if isinstance(task, ToolCall) else kept
        if isinstance(task, ToolCall) and run.budget is not None:
            problem = problem or run.budget.take_call()
        outcome = await self._execute(task, run, problem)
        above.tool_calls += [task.tool] if isinstance(task, ToolCall) else run.tool_calls
        if outcome.cost_usd is not None:
            above.agents_usd += outcome.cost_usd if agent else min(run.agents_usd, outcome.cost_usd)
        return outcome

    def _of_server(self, task: Task, session: Session) -> Resolved | None:
        """A call of a server's tool under its canonical id; None for all else, of which there is more to find out."""
        if not isinstance(task, ToolCall):
            return None
        entry = self._catalog.resolve(task.tool, session)
        return None if entry is None or entry.id in self._own_tools else (_called(task, entry.id), None, ANY)

    def _is_of_server(self, task: Task) -> bool:
        return isinstance(task, ToolCall) and task.tool not in self._own_tools

    def _stands_for_more(self, named: Task, session: Session) -> bool:
        """Whether ``named`` calls a tool of the gateway's own that another task is run for."""
        entry = self._catalog.resolve(named.tool, session) if isinstance(named, ToolCall) else None
        own = None if entry is None else self._own_tools.get(entry.id)
        return own is not None and own.task is not None

    async def resolve(self, task: Task, session: Session) -> Resolved:
        """``task`` under its canonical id; a tool that stands for a task becomes it, if the caller may have it."""
        found, problem, effects = self.resolved(task, session)
        if problem is None and isinstance(task, ToolCall) and (needed := self._lookup.needed(found, session)):
            await self._lookup.wait(needed, session)
            found, problem, effects = self.resolved(task, session)
            if problem is None and isinstance(found, ToolCall) and (id := self._lookup.unlisted(found.tool, session)):
                found = _called(found, id)
        return found, problem, effects

    def resolved(self, task: Task, session: Session) -> Resolved:
        """As :meth:`resolve`, by what is known now."""
        effects: Effects = ANY
        for _ in range(DEEPEST):
            if not isinstance(task, ToolCall):
                return task, None, effects
            entry = self._catalog.resolve(task.tool, session)
            if entry is None:
                return task, None, effects  # what is hidden as well, under the name that it was called by
            task = _called(task, entry.id)
            meta = self._own_tools.get(entry.id)
            if meta is None or meta.task is None or not self._catalog.allows(entry, session):
                return task, None, effects
            effects = min(effects, effects_of_tool(entry.definition), key=ORDER.index)
            try:
                task = _in_place_of(task, meta.task(task.arguments))
            except InvalidArguments as exc:
                return task, Failure("arguments.invalid", str(exc)), effects
            except Exception:
                self._log.exception("a tool of the gateway's own failed to make its task", tool=entry.id)
                return task, Failure("tool.fault", f"Tool {entry.name!r} failed; see the gateway's log."), effects
        return task, TOO_DEEP, effects

    def is_listed(self, call: ToolCall, session: Session) -> bool:
        """Whether ``session`` may know of the tool that is called."""
        return self._catalog.resolve(call.tool, session) is not None

    async def _execute(self, task: Task, run: ExecutionRun, problem: Failure | None) -> Outcome:
        span = self.tracing.start(task, run)
        outcome: Outcome | None = None
        shown = True
        if self._own_tools.agent_of(task):
            self._recorder.queued(task, run)
        elif shown := not isinstance(task, (ToolCall, ServerRequest)):
            self._recorder.started(task, run)
            if isinstance(task, Workflow) and not (task.max_tool_calls is None and task.max_cost_usd is None):
                run.budget = Budget(task.max_tool_calls, task.max_cost_usd, run.budget)
        try:
            if problem is not None:
                outcome = self._over(task, run, Status.ERROR, problem)
            elif run.deadline is None:
                outcome = await self.chains[run.parent is None and isinstance(task, ToolCall)](task, run)
            else:
                outcome = await self._in_time(task, run, run.deadline)
        finally:
            if outcome is None:  # only cancellation gets out of the chain
                failure = Failure("task.cancelled", "Cancelled before it ended.")
                outcome = self._over(task, run, Status.CANCELLED, failure)
            if run.notes is not None and outcome.cost_usd is None and "cost_usd" in run.notes:
                outcome = replace(outcome, cost_usd=run.notes["cost_usd"])
            outcome, record = self._record(task, run, outcome)
            if outcome.cost_usd is not None and run.budget is not None and not isinstance(task, Workflow):
                run.budget.spend(outcome.cost_usd)
            self.tracing.end(span, outcome)
            if record is not None and (not shown or await self.may_record(run.id, run.started_at)):
                await self._recorder.keep(record, first=self._is_kept_first(task, run, outcome))
        return outcome

    def _record(self, task: Task, run: ExecutionRun, outcome: Outcome) -> tuple[Outcome, ExecutionRecord | None]:
        """Record the end; an output that is not JSON is a fault of whoever made it."""
        if self._is_unrecorded(task, run, outcome):
            return outcome, None
        try:
            return outcome, self._recorder.row(task, run, outcome.status, outcome)
        except (TypeError, ValueError) as exc:
            self._log.error("the output of a task is not JSON", task=task.id, execution=run.id, problem=str(exc))
            outcome = self._over(task, run, Status.ERROR, Failure("executor.fault", EXECUTOR_FAULT))
            return outcome, self._recorder.row(task, run, outcome.status, outcome)

    def _is_kept_first(self, task: Task, run: ExecutionRun, outcome: Outcome) -> bool:
        """Whether its end is durable before it is answered; else who was answered may find it failed after a crash.

        So it is with what cost something, with tools that plugins publish, such as agents, and with what a
        client asked for and history shows as running. What a plan or code did besides is written before their own end.
        """
        if isinstance(task, ToolCall) and outcome.cost_usd is None:
            return task.tool in self._own_tools and self._own_tools.has_turns(task.tool)
        return outcome.cost_usd is not None or (run.parent is None and not isinstance(task, ServerRequest))

    def _is_unrecorded(self, task: Task, run: ExecutionRun, outcome: Outcome) -> bool:
        """Another gateway or another execution records it, or it only looked at what is recorded."""
        if run.parent is None and run.notes is not None and "recorded_as" in run.notes:
            return True
        if outcome.failure is not None and outcome.failure.code == ELSEWHERE:
            return True
        own = self._own_tools.get(task.tool) if isinstance(task, ToolCall) else None
        return own is not None and not own.recorded

    async def _in_time(self, task: Task, run: ExecutionRun, deadline: datetime) -> Outcome:
        try:
            async with Clock(run, (deadline - datetime.now(UTC)) / timedelta(seconds=1)):
                return await self.chains[0](task, run)
        except TimeoutError:
            failure = Failure("task.timed_out", "The deadline passed.", retryable=True)
            return self._over(task, run, Status.TIMED_OUT, failure)

    def _over(self, task: Task, run: ExecutionRun, status: Status, failure: Failure) -> Outcome:
        return ended(task, run.started_at, status, failure=failure)


async def _no_background(_task: Task, _session: Session, _options: RunOptions) -> ExecutionId:
    raise RuntimeError("the gateway has not started")


async def _nothing(_id: ExecutionId) -> None:
    """Nobody has to hear of it."""


async def _always(_id: ExecutionId, _began_at: datetime) -> bool:
    return True


def _not_started(_task: Task, _run: Run) -> Awaitable[Outcome]:
    raise RuntimeError("the gateway has not started")


def _called(call: ToolCall, tool: ToolId) -> ToolCall:
    """``call`` with the tool under its canonical id."""
    return call if call.tool == tool else replace(call, tool=tool)


def stricter(above: DryRun, own: DryRun | None) -> DryRun:
    """How a workflow runs inside another task: a rehearsal stays one, and may become one that reads nothing."""
    if above is False or own is True:
        return own or above
    return above


def intent_of(task: Task) -> str:
    """What the task itself says that it is for; ``""`` when it does not say."""
    return task.intent if isinstance(task, (Workflow, CodeRun)) else ""


def _in_place_of(call: ToolCall, task: Task) -> Task:
    """``task`` where ``call`` stood: its id, its place in a workflow, what came along with it.

    What is answered of it is its own to say, unless the call did.
    """
    select = call.step.select or task.step.select
    step = replace(call.step, select=select) if select != call.step.select else call.step
    placed = replace(task, id=call.id, depends_on=call.depends_on, step=step)
    return replace(placed, extra={**call.extra, **placed.extra}) if isinstance(placed, ToolCall) else placed
