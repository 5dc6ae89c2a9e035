"""One execution, as the task being run sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pml_hookspecs import (
    CannotAskError,
    DryRun,
    ExecutionId,
    Failure,
    Journal,
    Outcome,
    RawObject,
    RpcError,
    RunOptions,
    Session,
    Task,
)
from pml_kit.identifiers import execution_id, span_id, time_of, trace_id
from pml_kit.system.clock import QuestionTimer
from pml_mcp.wire.client import NEEDS, NO_CLIENT

if TYPE_CHECKING:
    from pml_mcp.wire.client import Client


class Gateway:
    """Asks clients what no server asks. Implements :class:`pml_mcp.wire.client.Asker`."""

    name = "pml"

    def tell(self, method: str, params: RawObject) -> None:
        """Nobody waits for progress."""


GATEWAY = Gateway()


class JournalScope(NamedTuple):
    """Where the outcomes of what an execution dispatches are kept."""

    journal: Journal
    prefix: str
    """Path of the execution below the one that the journal was given for; ``""`` for that one."""

    def path(self, task: Task) -> str:
        """Of a task that the execution dispatches."""
        return f"{self.prefix}/{task.id}" if self.prefix else task.id


class Budget:
    """What a workflow may still spend, with all that runs inside; those around it count along."""

    __slots__ = ("above", "calls_left", "usd_left")

    def __init__(self, max_tool_calls: int | None, max_cost_usd: float | None, above: Budget | None) -> None:
        self.calls_left, self.usd_left, self.above = max_tool_calls, max_cost_usd, above

    def take_call(self) -> Failure | None:
        """Count one tool call; why it must not be made, if there is no budget left."""
        levels: list[Budget] = []
        level: Budget | None = self
        while level is not None:
            if level.calls_left == 0:
                return Failure("budget.tool_calls", "The plan's budget of tool calls (max_tool_calls) is used up.")
            if level.usd_left is not None and level.usd_left <= 0:
                return Failure("budget.cost", "The plan's budget (max_cost_usd) is used up.")
            levels.append(level)
            level = level.above
        for level in levels:
            if level.calls_left is not None:
                level.calls_left -= 1
        return None

    def spend(self, cost_usd: float) -> None:
        """Count what something cost."""
        level: Budget | None = self
        while level is not None:
            if level.usd_left is not None:
                level.usd_left -= cost_usd
            level = level.above


class Terms(NamedTuple):
    """On whose behalf something runs, and how; what runs inside mostly shares it."""

    session: Session
    options: RunOptions
    """Those of the outermost, with the intent and the agent that count here."""
    dry_run: DryRun
    """What counts here, whatever the options say."""
    client: Client | None
    """Who can be asked; None when nobody waits."""


class ChildDispatcher(Protocol):
    """Runs what an execution dispatches."""

    async def dispatch(self, task: Task, above: ExecutionRun, journal: Journal | None = None) -> Outcome:
        """Run ``task`` for ``above``; ``journal`` keeps what it dispatches, None is that of ``above``."""
        ...

    async def begin(self, id: ExecutionId) -> None:
        """Record that what waited for its turn begins."""
        ...


class ExecutionRun:
    """One execution. Implements :class:`pml_hookspecs.Run`."""

    __slots__ = (
        "_above", "_asking", "_dispatcher", "_progress", "_task_id", "agents_usd", "budget", "deadline", "depth",
        "dry_run", "id", "indirect", "intent", "kept", "notes", "parent", "session", "started_at", "terms",
        "tool_calls", "trace_id",
    )  # fmt: skip

    def __init__(self, dispatcher: ChildDispatcher, above: ExecutionRun | None, task: Task, terms: Terms) -> None:
        """``above`` is None for the outermost, which alone has the id and the progress of the options."""
        options = terms.options
        id, self._progress = (options.id, options.progress) if above is None else (None, None)
        self._dispatcher, self._above, self._task_id = dispatcher, above, task.id
        self.id = id or execution_id()
        self.parent: ExecutionId | None = None if above is None else above.id
        self.indirect = above is not None
        """Whether the client did not name it itself."""
        self.depth: int = 0 if above is None else above.depth + 1
        self.trace_id: str = trace_id(self.id) if above is None else above.trace_id
        self.terms = terms
        self.session, self.intent, self.dry_run = terms.session, options.intent, terms.dry_run is not False
        self.deadline = options.deadline
        self.started_at = datetime.now(UTC) if id is None else time_of(id)
        self.tool_calls: list[str] = []
        self.agents_usd = 0.0
        """What the runs of agents cost that are in it, as far as its own cost has that [USD]."""
        self.kept: JournalScope | None = None
        self.notes: dict[str, Any] | None = None
        """What was said by :meth:`note`."""
        self._asking: QuestionTimer | None = None
        self.budget: Budget | None = None if above is None else above.budget

    @property
    def span_id(self) -> str:
        """Of this execution's one span."""
        return span_id(self.id)

    @property
    def parent_span_id(self) -> str | None:
        """None for what a client asked for."""
        return None if self.parent is None else span_id(self.parent)

    @property
    def path(self) -> str:
        """Ids of tasks, the outermost first, joined by ``/``."""
        return self._task_id if self._above is None else f"{self._above.path}/{self._task_id}"

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the client's request has for the gateway in its ``_meta``."""
        return self.terms.options.meta

    @property
    def reads_for_real(self) -> bool:
        """Whether the rehearsal lets tools run that only read."""
        return self.terms.dry_run == "reads"

    @property
    def durable(self) -> bool:
        """Whether a journal keeps what it dispatches."""
        return self.kept is not None

    @property
    def wants_progress(self) -> bool:
        """Whether the client asked to be told."""
        return self._progress is not None

    async def dispatch(self, task: Task, *, journal: Journal | None = None) -> Outcome:
        """Run ``task`` as a child of this execution."""
        return await self._dispatcher.dispatch(task, self, journal)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Have the client answer a question.

        Raises:
            CannotAskError: Nobody can be asked that.
            RpcError: The client answered with an error.
        """
        needed = NEEDS.get(method)
        client = self.terms.client
        if client is None or needed is None:
            raise CannotAskError("no client waits for this execution" if needed else f"{method} is no such question")
        if not isinstance(client.capabilities.get(needed), Mapping):
            raise CannotAskError(f"the client does not offer {needed}")
        with self.question():
            try:
                return await client.ask(GATEWAY, method, RawObject.of(params))
            except RpcError as exc:
                if exc.code == NO_CLIENT:
                    raise CannotAskError(exc.message) from exc
                raise

    @contextmanager
    def question(self) -> Iterator[None]:
        """The clocks of this one, and of all that it is part of, stand still: people are asked."""
        asking = [run._own_asking() for run in self._up()]  # noqa: SLF001 - of its own kind
        for each in asking:
            each.begin()
        try:
            yield
        finally:
            for each in asking:
                each.end()

    def _up(self) -> Iterator[ExecutionRun]:
        """This one, and all that it is part of."""
        run: ExecutionRun | None = self
        while run is not None:
            yield run
            run = run._above  # noqa: SLF001 - of its own kind

    def _own_asking(self) -> QuestionTimer:
        self._asking = self._asking or QuestionTimer()
        return self._asking

    @property
    def asked_s(self) -> float:
        """How long people have been asked, here and in all that it dispatched [s]."""
        return 0.0 if self._asking is None else self._asking.total_s()

    async def begin(self) -> None:
        """Say that a call that waited for its turn begins."""
        await self._dispatcher.begin(self.id)

    def note(
        self,
        *,
        cost_usd: float | None = None,
        tokens_in: int | None = None,
        tokens_out: int | None = None,
        context_used: int | None = None,
        context_max: int | None = None,
        transcript: Sequence[Mapping[str, Any]] | None = None,
        recorded_as: ExecutionId | None = None,
    ) -> None:
        """What history says besides the outcome.

        Raises:
            TypeError: The transcript is not JSON.
        """
        if transcript is not None:
            transcript = [RawObject.of(line) for line in transcript]
        said = {
            "cost_usd": cost_usd,
            "tokens_in": tokens_in,
            "tokens_out": tokens_out,
            "context_used": context_used,
            "context_max": context_max,
            "transcript": transcript,
            "recorded_as": recorded_as,
        }
        self.notes = {**(self.notes or {}), **{name: value for name, value in said.items() if value is not None}}

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell the client, if it asked to be told."""
        if self._progress is not None:
            self._progress(done, total, message)
