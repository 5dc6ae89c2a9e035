"""Executors: run a task. Wrappers: run around every task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from ._markers import hookspec
from ._values import quick

if TYPE_CHECKING:
    from datetime import datetime

    from .services import Services
    from .types import ExecutionId, Outcome, Phase, Session, ToolId

GROUP = "pml.executor"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRun:
    """Run code in a sandbox. ``inputs`` are data: a callable in them is a programming error."""

    id: str
    language: str
    source: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityRun:
    """Run a learned capability from the store."""

    id: str
    capability_id: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A directed acyclic graph of tasks. Arguments may refer to the results of tasks named in ``needs``."""

    id: str
    tasks: tuple[Task, ...]
    needs: tuple[str, ...] = ()
    intent: str = ""
    """What the workflow is for, in the caller's words."""
    dry_run: bool | None = None
    """True: rehearse, no task in it has effects, and that holds for everything inside. False: run for real, unless
    what it is part of is rehearsed. None: as the gateway is configured."""


Task: TypeAlias = ToolCall | CodeRun | CapabilityRun | Workflow


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
    def session(self) -> Session:
        """Who asked."""
        ...

    @property
    def intent(self) -> str:
        """What it is for, in the caller's words; ``""`` when not said."""
        ...

    @property
    def dry_run(self) -> bool:
        """True: nothing may have effects."""
        ...

    @property
    def deadline(self) -> datetime | None:
        """UTC. The gateway cancels the task then; an executor need not watch the clock."""
        ...

    @property
    def wants_progress(self) -> bool:
        """Whether anybody asked to be told of progress."""
        ...

    async def dispatch(self, task: Task) -> Outcome:
        """Run another task through the whole chain of wrappers, as a child of this execution.

        How a workflow runs its nodes. Never raises for what the task does wrong; cancellation propagates.
        """
        ...

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell the client, if it asked to be told. ``done`` and ``total`` share a unit of the executor's choosing."""
        ...


class Executor(Protocol):
    """Runs tasks of the kinds in :attr:`handles`. Registered in ``pml.executor``: ``Driver(settings, services)``.

    Those named in ``[gateway.executors]`` are loaded, or all installed ones when the table is absent. When two loaded
    executors handle one kind, the table must say which to use. Tool calls are run by the core.
    """

    handles: ClassVar[frozenset[type]]
    """Subset of ``{CodeRun, CapabilityRun, Workflow}``; not empty."""

    async def execute(self, task: Task, run: Run) -> Outcome:
        """Run ``task`` to its end.

        Returns:
            An outcome for everything the *task* can do wrong: a tool error, code that raises, a timeout inside the
            sandbox. ``outcome.task_id == task.id``.

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
        is: so a task that it lets pass costs no coroutine.
        """
        ...


class ExecutorHooks:
    """Hooks around running tasks."""

    @hookspec
    def pml_wrap_executor(self, services: Services) -> Iterable[Wrapper]:
        """Contribute wrappers. Called once, at start-up; the chain is then fixed.

        Order is ``(phase, plugin name)``, outermost first, and is printed by ``pml plugins chain``. Raising
        quarantines the plugin.
        """
        return ()
