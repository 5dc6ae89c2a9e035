"""Executors: run a task. Wrappers: run around every task."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from datetime import datetime

    from .tasks import Task
    from .types import ExecutionId, Outcome, Phase, Session


Journal: TypeAlias = Callable[[str, "Task", Callable[[], Awaitable["Outcome"]]], Awaitable["Outcome"]]
"""Keeps the outcomes of a workflow's tasks, and of what its code calls, so that those are not run again.

A function of a path, a task and how to run it: the outcome kept under the path; if there is none, what running it
gives, kept before it is returned. The path says where the task stands in the workflow: ids joined by ``/``, the same on
every run of the plan. The references of the task are filled in, and it is run through the chain.
"""


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
        """Of ``_meta`` of the request that this began with: keys under ``pml/``, and the trace context of W3C.

        Servers are not told of them. It is kept with work in the background, for the gateway that goes on with it.
        """
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

    def question(self) -> AbstractContextManager[None]:
        """While it is entered, people are asked by other ways than :meth:`ask`; :attr:`asked_s` counts the time."""
        ...

    @property
    def asked_s(self) -> float:
        """How long people were asked, here and inside, up to now [s]; ``pml_kit.system.clock`` leaves it out."""
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
    its keys are ``workflow``, ``durable``, ``capability``, ``code``, ``code.<language>`` and types of plugins' tasks.
    The core runs tool calls.
    """

    handles: ClassVar[frozenset[type]]
    """Subset of ``{CodeRun, CapabilityRun, PluginTask, Workflow}``; not empty.

    An executor of plugins' tasks has ``types: ClassVar[frozenset[str]]``, those that it runs: plans may then have tasks
    of these types, with ``inputs``.

    An executor of code may have ``languages: ClassVar[frozenset[str]]``, those it runs; several can then be in use
    side by side. One without runs what no other does. One of workflows that are :attr:`Workflow.durable`, and of those
    only, has ``durable: ClassVar[bool] = True``. One with ``opt_in: ClassVar[bool] = True`` runs only what it is named
    for, and programs of the languages that its class method ``programs()`` gives, where nobody is named for their code.

    One that can tell what is wrong with a task before it runs can say so (``pml_kit.offers.Checker``)."""

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
    """Runs around every task; see :class:`Phase` for ``before``, ``after`` and ``direct``, which it may have."""

    @property
    def phase(self) -> Phase:
        """Where in the chain it sits."""
        ...

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Call ``call_next(task, run)`` zero or more times and return an outcome: ``async def``, usually.

        Not calling it refuses or replaces the task. Raising is a fault, and fails closed: the client gets the code
        ``wrapper.fault``. ``task`` may be replaced by another on the way in; ``run`` is handed on as it came.

        One that only looks at tasks before they run may be a plain function that returns ``call_next(task, run)`` as it
        is: so a task that it lets pass costs no coroutine. One that has humans look can
        tell beforehand of which tasks (``pml_kit.offers.Asker``).
        """
        ...
