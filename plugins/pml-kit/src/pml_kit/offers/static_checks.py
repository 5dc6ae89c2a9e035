"""What can be told of tasks before they run: what is wrong with them, and who would have to look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from pml_hookspecs import Executor, Key, Wrapper

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, ExecutionId, Failure, Run, Session, Task

    from .plan_graphs import PlanGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What can be told of a task without running it."""

    checked: Literal["nothing", "syntax", "types"] = "nothing"
    """How far it was looked at; what comes later includes what comes before."""
    problems: Sequence[Failure] = ()
    """Why it fails as it stands, in the order of its source. Where there is a place, ``details`` have ``line`` and
    ``column``, from 1; of a plan ``task``, the ids to it joined by ``/``, and ``at``, the place in that task."""
    doubts: Sequence[Failure] = ()
    """Why it may fail, or give something else than it seems to; with places as in :attr:`problems`."""
    unchecked: str = ""
    """Why no more was looked at, in one sentence; ``""`` when all was that can be."""
    becomes: Task | None = None
    """What it comes to, of a task that stands for another, such as a capability for its code, with the inputs that were
    given. What is wrong with that is told when that is checked."""
    plan: PlanGraph | None = None
    """Of a plan, its tasks and what they need of each other."""


@runtime_checkable
class Checker(Executor, Protocol):
    """An executor that can tell what is wrong with a task before it runs. Those that cannot are asked nothing."""

    async def check(self, task: Task, session: Session, *, within_s: float) -> Verdict:
        """What can be told of ``task`` without running any of it and without any effect.

        What is right must not be found wrong: what is not certain is a doubt.

        Args:
            task: Of a kind, and for code in a language, that the executor handles. Of its inputs only the names count:
                values may be references to results that are not there yet.
            session: For whom: a verdict tells nothing of tools that it may not have.
            within_s: What takes longer is left out, and said in :attr:`Verdict.unchecked` [s].

        Raises:
            Exception: Only for a fault of the executor itself. Cancellation must propagate, as from :meth:`execute`.
        """
        ...


@runtime_checkable
class Asker(Wrapper, Protocol):
    """A wrapper that stops tasks until a human has looked, and can tell beforehand which."""

    async def would_ask(self, task: Task, above: Run) -> str:
        """Why a human would have to look before ``task`` runs for real; ``""`` when nobody would.

        Asks nobody, keeps nothing, and spends no approval that was given before.

        Args:
            task: Its arguments may still be references to results that are not there yet.
            above: The execution that would dispatch it, or a rehearsal of that.

        Raises:
            Exception: It cannot be told.
        """
        ...


@runtime_checkable
class Judge(Wrapper, Protocol):
    """A wrapper that refuses calls of tools whose arguments do not fit, and can tell beforehand of which tools."""

    def judges(self, entry: CatalogEntry) -> bool:
        """Whether calls of the tool are refused when their arguments do not fit its input schema."""
        ...


class StaticChecks(Protocol):
    """What all executors and wrappers can tell of tasks without running them."""

    async def check(self, task: Task, session: Session, *, within_s: float) -> Verdict:
        """What can be told of ``task`` without running it, by the executor that would run it.

        Of a tool that stands for a task, of that task. Nothing is known of calls of servers' tools, nor where the
        executor is no :class:`Checker`; one that there is not is a problem.

        Args:
            task: Of its inputs only the names count.
            session: For whom.
            within_s: Longest time [s]; what would have taken longer is left out.

        Raises:
            RuntimeError: The gateway has not started.
        """
        ...

    def task_types(self) -> Sequence[str]:
        """Types of plugins' tasks (:class:`~pml_hookspecs.PluginTask`) that an executor here runs, in order.

        Raises:
            RuntimeError: The gateway has not started.
        """
        ...

    def judges(self, entry: CatalogEntry) -> bool:
        """Whether calls of a tool are refused here when their arguments do not fit its input schema.

        False where no wrapper is a :class:`Judge` of it: then its server decides.

        Raises:
            RuntimeError: The gateway has not started.
        """
        ...

    async def would_ask(self, task: Task, above: Run) -> Sequence[str]:
        """Why humans would have to look before ``task`` runs for real, outermost wrapper first; empty when none would.

        A wrapper that fails to tell counts as one that would ask, and is logged.

        Args:
            task: Of a tool that stands for a task, that task is meant.
            above: The execution that would dispatch it.

        Raises:
            RuntimeError: The gateway has not started.
        """
        ...


class Flows(Protocol):
    """Knows which values of untrusted servers would decide what a task does, for whoever has a human look at that."""

    def of(self, execution: ExecutionId) -> Sequence[str]:
        """A line for each such value: what it decides, the value and where it comes from, for people to read.

        Args:
            execution: One that is under way.

        Returns:
            The same lines, in the same order, whenever the same values flow in the same plan. Empty where none does.
        """
        ...


FLOWS: Key[Flows] = Key("flows", Flows)
STATIC_CHECKS: Key[StaticChecks] = Key("static_checks", StaticChecks)
"""The gateway's own."""
