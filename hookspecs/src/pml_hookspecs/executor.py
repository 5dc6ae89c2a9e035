"""Executors: run a task. Wrappers: run around every task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias

from ._markers import hookspec
from ._values import quick
from .requests import ServerRequest

if TYPE_CHECKING:
    from datetime import datetime

    from .folders import FolderSize
    from .services import Services
    from .types import ExecutionId, Json, Outcome, Phase, Session, ToolId

GROUP = "pml.executor"
DryRun: TypeAlias = bool | Literal["reads"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a task of a workflow is tried."""

    attempts: int = 1
    """In all, 1 to 20."""
    delay_s: float = 0.5
    """Before the second attempt; each further one waits twice as long [s]."""
    most_delay_s: float = 30.0
    """No wait is longer [s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How a workflow treats one of its tasks. Means nothing for a task on its own."""

    when: str = ""
    """Run only if this holds: a JMESPath expression over the results of the tasks in ``needs``, by id. ``""``: always.
    A task that is not run for this reason is ``SKIPPED``, and those that need it run nevertheless."""
    for_each: Json = None
    """Run once for each item of this array, or of the array that this reference finds; ``{{item}}`` and ``{{index}}``
    in the task's arguments stand for the item and its number from 0. The result is the array of results. None: once."""
    max_items: int = 100
    """Most items of ``for_each``; more is a mistake, not cut off."""
    retry: Retry = Retry()
    timeout_s: float | None = None
    """Longest time of one attempt [s]."""
    on_error: Literal["fail", "continue", "skip"] = "fail"
    """What a failure does. ``fail``: tasks that need this one are skipped and the workflow fails. ``continue``: they
    run, and find null where the result would be. ``skip``: they are skipped, and the workflow does not fail by it."""
    compensate: Task | None = None
    """Undoes it: run, last first, for tasks that had ended well when the workflow fails."""
    idempotency_key: str = ""
    """Says that running it twice under this key does no harm."""
    approve: bool = False
    """Have a human look before it runs, whatever the policy. Whoever asks the human hands the task on without this; a
    task that still has it in the end is refused, because nobody asked."""


ONCE = Step()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """Call one tool."""

    id: str
    """Name of the task within its workflow; any text for a call on its own."""
    tool: ToolId
    """Any spelling that ``Catalog.resolve`` knows; the chain sees the canonical one."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Other members of the request's ``params`` (``_meta`` and such), handed on to the server untouched."""
    needs: tuple[str, ...] = ()
    """Ids of tasks in the same workflow that end before this one starts."""
    step: Step = ONCE
    dry_run: DryRun | None = None
    """As of a workflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRun:
    """Run code in a sandbox. ``inputs`` are data: a callable in them is a programming error.

    The output is the value that the code returns, or with :attr:`program`
    ``{"stdout": text, "stderr": text, "exit_code": int}``.
    """

    id: str
    language: str
    """``typescript``, ``javascript`` or ``python``; an executor may know others."""
    source: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Variables of the code; of tasks in ``needs``, their results under their ids."""
    needs: tuple[str, ...] = ()
    step: Step = ONCE
    intent: str = ""
    """What it is for, in the caller's words. For learning; puts no tools into the code's reach."""
    program: bool = False
    """True: the source is a program whose streams are the result. False: the body of a function."""
    folder: str | None = None
    """The one directory it may read and write, and starts in; None for no files at all."""
    folder_limit: FolderSize | None = None
    """What :attr:`folder` may hold, with what is in it already; None for as much as it likes. Code that writes more is
    stopped, with the failure ``code.folder_full``. In a folder that holds more when it starts, it can read and remove
    files, or only read, and write nothing."""
    timeout_s: float | None = None
    """None for the sandbox's own limit [s]."""
    tools: tuple[str, ...] | None = None
    """Patterns of tool ids that it may call (``files:*``); None for all that its caller may call, empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityRun:
    """Run a learned capability from the store, or the code given in its place."""

    id: str
    capability_id: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    step: Step = ONCE
    source: str = ""
    """Code to run instead of what is stored; ``""`` for that."""
    language: str = "typescript"
    """Of :attr:`source`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A directed acyclic graph of tasks. Arguments may refer to the results of tasks named in ``needs``."""

    id: str
    tasks: tuple[Task, ...]
    """Empty: what to do is planned from :attr:`intent` first."""
    needs: tuple[str, ...] = ()
    step: Step = ONCE
    intent: str = ""
    """What the workflow is for, in the caller's words."""
    dry_run: DryRun | None = None
    """True: rehearse, nothing in it reaches a server. ``"reads"``: rehearse, but let tools run that say that they only
    read. Either holds for everything inside. False: run for real, unless what it is part of is rehearsed. None: as the
    key, the endpoint or the gateway is configured."""
    durable: bool = False
    """Survives the gateway: what has run is not run again when it goes on after a crash."""
    by_layer: bool = False
    """Stop after each layer of tasks that do not need one another, for somebody to look; ``known`` goes on."""
    known: Mapping[str, Outcome] = field(default_factory=dict)
    """Outcomes of tasks that ran before, by id; they are not run again."""
    max_parallel: int | None = None
    """Most tasks under way at once; None for the executor's own limit."""
    timeout_s: float | None = None
    """Longest time for all of it [s]."""
    max_tool_calls: int | None = None
    """Budget: calls by all tasks in it together, those of code included."""
    max_cost_usd: float | None = None
    """Budget: what all tasks in it together may cost, as far as costs are known [USD]."""
    wait: bool = True
    """False: answer ``{"execution_id": id, "status": "pending"}`` once the execution is durably recorded, and run in
    the background. Means nothing inside another task."""
    mistakes: tuple[str, ...] = ()
    """What is wrong with the request that it was read from, by line: it may be looked at, and is refused, not run."""


Task: TypeAlias = ToolCall | ServerRequest | CodeRun | CapabilityRun | Workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A plan that somebody made of an intent."""

    workflow: Workflow
    confidence: float
    """In ``[0, 1]``."""
    why: str
    """One or two sentences."""


class Suggester(Protocol):
    """Makes plans of intents."""

    async def suggest(self, intent: str, run: Run, *, limit: int) -> Sequence[Suggestion]:
        """At most ``limit`` plans with tools that the session of ``run`` may have, best first; none without an idea."""
        ...


class Journal(Protocol):
    """Keeps the outcomes of a workflow's tasks, and of what its code calls, so that those are not run again."""

    async def keep(self, path: str, task: Task, perform: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """The outcome kept under ``path``; if there is none, that of ``perform``, kept before it is returned.

        Args:
            path: Where the task stands in the workflow: ids joined by ``/``, the same on every run of the plan.
            task: What is to run, its references filled in.
            perform: Runs it through the chain.
        """
        ...


class CannotAskError(Exception):
    """There is no client to ask, or it did not say that it can answer such questions. The message says which."""


class Run(Protocol):
    """One execution, as the task being run sees it."""

    @property
    def id(self) -> ExecutionId:
        """This execution."""
        ...

    @property
    def parent(self) -> ExecutionId | None:
        """The execution that dispatched this one; None for what a client asked for."""
        ...

    @property
    def indirect(self) -> bool:
        """Whether no client named it: another execution dispatched it, or a meta-tool stands for it."""
        ...

    @property
    def session(self) -> Session:
        """Who asked."""
        ...

    @property
    def intent(self) -> str:
        """What it is for, in the caller's words; ``""`` when not said."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """Keys under ``pml/`` in ``_meta`` of the request that this began with; servers are not told of them."""
        ...

    @property
    def dry_run(self) -> bool:
        """True: nothing may have effects."""
        ...

    @property
    def reads_for_real(self) -> bool:
        """Of a rehearsal: whether tools that say that they only read run for real."""
        ...

    @property
    def deadline(self) -> datetime | None:
        """UTC. The gateway cancels the task then; an executor need not watch the clock."""
        ...

    @property
    def path(self) -> str:
        """Where it stands in what a client asked for: ids of tasks joined by ``/``, the outermost first."""
        ...

    @property
    def durable(self) -> bool:
        """Whether a journal keeps the outcomes of what it dispatches, so that somebody else sees to its going on."""
        ...

    @property
    def wants_progress(self) -> bool:
        """Whether anybody asked to be told of progress."""
        ...

    async def dispatch(self, task: Task, *, journal: Journal | None = None) -> Outcome:
        """Run another task through the whole chain of wrappers, as a child of this execution.

        How a workflow runs its nodes. Never raises for what the task does wrong; cancellation propagates.

        Args:
            task: What to run.
            journal: Keeps the outcomes of what ``task`` dispatches, and of what workflows, code and capabilities in it
                do. None for the journal that this execution itself is kept in, if any.
        """
        ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Have the client answer a question: ``elicitation/create``, ``sampling/createMessage`` or ``roots/list``.

        In either era: a client without a handshake gets the question as the answer to its request and comes back
        (MCP 2026-07-28, input required). :attr:`asked_s` counts the time meanwhile.

        Returns:
            The result as MCP has it for ``method``, as the client sent it.

        Raises:
            CannotAskError: There is nobody to ask, or it cannot answer such a question.
            RpcError: The client answered with an error.
        """
        ...

    @property
    def asked_s(self) -> float:
        """How long people were asked, here and inside, up to now [s]; :class:`clock.Clock` stands still meanwhile."""
        ...

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
        """What history says of this execution besides its outcome; each as in :class:`ExecutionRecord`.

        What is None stays as it was said before. A cost counts as the outcome's, if that has none. With
        ``recorded_as``, another execution says all of it: this one has no record, unless it is part of something.
        """
        ...

    async def begin(self) -> None:
        """Say, durably when it returns, that a call that waited for its turn begins: it is never run again then."""
        ...

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell the client, if it asked to be told. ``done`` and ``total`` share a unit of the executor's choosing."""
        ...


class Executor(Protocol):
    """Runs tasks of the kinds in :attr:`handles`. Registered in ``pml.executor``: ``Driver(settings, services)``.

    All that are installed are loaded. When two of them handle one kind, ``[gateway.executors]`` must say which to use:
    its keys are ``workflow``, ``durable``, ``capability``, ``code`` and ``code.<language>``. The core runs tool calls.
    """

    handles: ClassVar[frozenset[type]]
    """Subset of ``{CodeRun, CapabilityRun, Workflow}``; not empty.

    An executor of code may have ``languages: ClassVar[frozenset[str]]``, those it runs; several can then be in use
    side by side. One without runs what no other does. One of workflows that are :attr:`Workflow.durable`, and of those
    only, has ``durable: ClassVar[bool] = True``. One with ``opt_in: ClassVar[bool] = True`` runs only what it is named
    for, and programs of the languages that its class method ``programs()`` gives, where nobody is named for their code.

    One that can tell what is wrong with a task before it runs is a :class:`~pml_hookspecs.foresight.Checker`."""

    async def execute(self, task: Task, run: Run) -> Outcome:
        """Run ``task`` to its end.

        Returns:
            An outcome for everything the *task* can do wrong: a tool error, code that raises, a timeout inside the
            sandbox. ``outcome.task_id == task.id``. One with the failure ``execution.elsewhere`` says that another
            gateway runs this very execution, and is not recorded.

        Raises:
            Exception: Only for a fault of the executor itself. Recorded as ``executor.fault``; the client gets an
                opaque error. Cancellation must propagate, after cleaning up processes within 2 s.
        """
        ...


CallNext: TypeAlias = Callable[["Task", "Run"], Awaitable["Outcome"]]


class Wrapper(Protocol):
    """Runs around every task: policy, caching, retries, dry run."""

    @property
    def phase(self) -> Phase:
        """Where in the chain it sits."""
        ...

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Call ``call_next(task, run)`` zero or more times and return an outcome: ``async def``, usually.

        Not calling it refuses or replaces the task. Raising is a fault, and fails closed: the client gets the code
        ``wrapper.fault``. ``task`` may be replaced by another on the way in; ``run`` is handed on as it came.

        One that only looks at tasks before they run may be a plain function that returns ``call_next(task, run)`` as it
        is: so a task that it lets pass costs no coroutine. One that has humans look can be a
        :class:`~pml_hookspecs.foresight.Asker`.
        """
        ...


class ExecutorHooks:
    """Hooks around running tasks."""

    @hookspec
    def pml_wrap_executor(self, services: Services) -> Iterable[Wrapper]:
        """Contribute wrappers. Called once, at start-up; the chain is then fixed.

        Order is ``(phase, plugin name)``, outermost first: see ``pml plugins chain``. Raising quarantines the plugin.
        """
        return ()

    @hookspec
    def pml_suggesters(self, services: Services) -> Iterable[Suggester]:
        """Contribute makers of plans, asked by ``Services.suggest``. Called once, at start-up. Raising quarantines."""
        return ()
