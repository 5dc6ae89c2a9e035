"""Which executor runs which kind of task."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from pml_hookspecs import (
    CapabilityRun,
    CodeRun,
    Executor,
    Failure,
    Outcome,
    PluginTask,
    Run,
    ServerRequest,
    Status,
    Task,
    ToolCall,
    Workflow,
)
from pml_kit.errors import OperatorError
from pml_kit.mcp.effects import only_reads
from pml_kit.outcomes import ended
from pml_kit.shapes import types_of

if TYPE_CHECKING:
    from pml_catalog.live import LiveCatalog
    from pml_settings.rehearsals import Rehearsals

KINDS: Mapping[type, str] = {Workflow: "workflow", CodeRun: "code", CapabilityRun: "capability"}
"""Task types and their names in ``[gateway.executors]``; ``durable`` are workflows that survive the gateway, and
``code.<language>`` code in one language. Plugins' tasks go by their own type."""
DURABLE = "durable"
PROGRAM = "program."
"""Before a language, in ``[gateway.executors]``: who runs its programs, where that is not who runs its other code."""

UNREHEARSED = Failure(
    "dry_run.unavailable",
    "A dry run was asked for and no installed plugin simulates this task, so nothing ran. Install one that does; "
    "pml-gateway brings one.",
)


UNSEEN = Failure(
    "approval.unavailable",
    "The plan wants a human to approve this task, and no installed plugin asks one. Install one that does, which "
    "pml-gateway brings, or, if you answer for it, send the plan without approve.",
)


class DirectCalls(Protocol):
    """Runs what needs no executor: one call, one request."""

    def execute(self, task: ToolCall, run: Run) -> Awaitable[Outcome]:
        """Call a tool of a server's, or of the gateway's own."""
        ...

    def request(self, task: ServerRequest, run: Run) -> Awaitable[Outcome]:
        """Send a server another request."""
        ...


class Executors:
    """The bottom of the chain: hands each task to the executor of its kind.

    What comes down here in a dry run was not simulated by anyone, and is refused: a missing plugin must not turn a
    rehearsal into the real thing. What comes down here for real under a lock began before it, and is refused as
    well: nothing on the way, such as a human who agrees, makes it run.
    """

    def __init__(self, direct: DirectCalls, catalog: LiveCatalog, rehearsals: Rehearsals) -> None:
        self._direct, self._catalog, self._rehearsals = direct, catalog, rehearsals
        self._by_kind: dict[str, tuple[str, Executor]] = {}
        self._on_request: dict[str, str] = {}
        """Kind to the executor that would run it if it were named."""

    def add(self, name: str, executor: Executor, chosen: Mapping[str, str]) -> None:
        """Let ``executor`` run the kinds it handles; ``chosen`` says whom a kind belongs to when two claim it.

        Raises:
            OperatorError: Two executors claim a kind and the configuration does not choose.
        """
        preferred = _preferred(executor, chosen)
        for kind in _kinds_of(executor):
            choice = chosen.get(kind, chosen.get(kind.partition(".")[0]))
            if choice == name or (choice is None and not getattr(executor, "opt_in", False)):
                self._claim(kind, name, executor)
            programs = kind.replace("code.", PROGRAM, 1)
            if chosen.get(programs, name if programs in preferred else None) == name and programs != kind:
                self._claim(programs, name, executor)

    def _claim(self, kind: str, name: str, executor: Executor) -> None:
        if (other := self._by_kind.get(kind)) is not None:
            raise OperatorError(
                f"executors {other[0]!r} and {name!r} both run {kind} tasks", f"Choose: {_choice(kind, name)}"
            )
        self._by_kind[kind] = (name, executor)

    def runs(self, kind: str) -> bool:
        """Whether anybody does, by the names of ``[gateway.executors]``."""
        return kind in self._by_kind

    def types(self) -> list[str]:
        """Types of plugins' tasks that somebody runs."""
        return sorted(kind for kind, (_, executor) in self._by_kind.items() if kind in types_of(executor))

    def leaves_out(self, name: str, executor: type[Executor], chosen: Mapping[str, str]) -> bool:
        """Whether a driver waits to be named, is not, and is not preferred for anything; what it would run is kept."""
        if name in chosen.values() or not getattr(executor, "opt_in", False):
            return False
        self._on_request.update(dict.fromkeys(_kinds_of(executor), name))
        return not _preferred(executor, chosen)

    def _harmless(self, task: Task, run: Run) -> bool:
        """A workflow, whose tasks come down here by themselves, or a tool that only reads and may do so."""
        if isinstance(task, Workflow):
            return True
        if isinstance(task, ServerRequest):
            return run.reads_for_real and task.only_reads
        entry = self._catalog.get(task.tool) if isinstance(task, ToolCall) else None
        if entry is None or not (entry.own or run.reads_for_real):
            return False
        return only_reads(entry)

    def execute(self, task: Task, run: Run) -> Awaitable[Outcome]:
        """Run ``task``; a kind that nobody runs is an outcome that says what to install."""
        if run.dry_run:
            if not self._harmless(task, run):
                return _refused(task, UNREHEARSED)
        elif (locked := self._rehearsals.refusal(run.session)) is not None:
            return _refused(task, locked, Status.DENIED)
        if task.step.approve and not run.dry_run:
            return _refused(task, UNSEEN, Status.DENIED)
        if isinstance(task, ToolCall):
            return self._direct.execute(task, run)
        if isinstance(task, ServerRequest):
            return self._direct.request(task, run)
        found = self.of(task)
        return _refused(task, found) if isinstance(found, Failure) else found[1].execute(task, run)

    def of(self, task: Task) -> tuple[str, Executor] | Failure:
        """Name and executor of whoever runs a task that is no tool call; why nobody does."""
        kind = kind_of(task)
        program = PROGRAM + task.language if isinstance(task, CodeRun) and task.program else kind
        found = self._by_kind.get(program) or self._by_kind.get(kind) or self._by_kind.get(kind.partition(".")[0])
        return Failure("executor.missing", self._missing(task, kind)) if found is None else found

    def _missing(self, task: Task, kind: str) -> str:
        if (name := self._on_request.get(kind)) is not None:
            return f"{name!r} runs {kind} tasks only when it is named: set {_choice(kind, name)}."
        if isinstance(task, CodeRun):
            return f"No installed plugin runs {task.language!r} code; pml-gateway[code] brings some that run code."
        return f"No executor for {kind} tasks is installed; install a plugin that provides one."


def kind_of(task: Task) -> str:
    """Key of ``[gateway.executors]`` that says who runs ``task``."""
    if isinstance(task, CodeRun):
        return f"code.{task.language}"
    if isinstance(task, PluginTask):
        return task.type
    return DURABLE if isinstance(task, Workflow) and task.durable else KINDS[type(task)]


def _kinds_of(executor: Executor | type[Executor]) -> Iterator[str]:
    for task_type in executor.handles:
        if task_type is PluginTask:
            yield from sorted(types_of(executor))
            continue
        kind = KINDS[task_type]
        if task_type is CodeRun:
            languages = getattr(executor, "languages", None)
            yield from [kind] if languages is None else [f"{kind}.{language}" for language in sorted(languages)]
        elif task_type is Workflow and getattr(executor, "durable", False):
            yield DURABLE
        else:
            yield kind


def _preferred(executor: Executor | type[Executor], chosen: Mapping[str, str]) -> set[str]:
    """Kinds of programs that an executor is for where the configuration says nothing of the language's code."""
    languages: Iterable[str] = getattr(executor, "programs", frozenset)()
    said = {kind for kind in chosen if kind == "code" or kind.startswith(("code.", PROGRAM))}
    return {PROGRAM + one for one in languages if not said & {"code", f"code.{one}", PROGRAM + one}}


def _choice(kind: str, name: str) -> str:
    key = f'"{kind}"' if "." in kind else kind
    return f'[gateway.executors] {key} = "{name}"'


async def _refused(task: Task, failure: Failure, status: Status = Status.ERROR) -> Outcome:
    return ended(task, datetime.now(UTC), status, failure=failure)
