"""Which executor runs which kind of task."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pml_hookspecs import CapabilityRun, CodeRun, Executor, Failure, Outcome, Run, Status, Task, ToolCall, Workflow

from .dispatch import ended
from .errors import OperatorError

if TYPE_CHECKING:
    from .catalog import LiveCatalog
    from .direct import DirectExecutor

KINDS: Mapping[type, str] = {Workflow: "workflow", CodeRun: "code", CapabilityRun: "capability"}
"""Task types and their names in ``[gateway.executors]``."""


UNREHEARSED = Failure(
    "dry_run.unavailable",
    "A dry run was asked for and no installed plugin simulates this task, so nothing ran. Install pml-dry-run.",
)


class Executors:
    """The bottom of the chain: hands each task to the executor of its kind.

    What comes down here in a dry run was not simulated by anyone, and is refused: a missing plugin must not turn a
    rehearsal into the real thing (DRY-9).
    """

    def __init__(self, direct: DirectExecutor, catalog: LiveCatalog) -> None:
        self._direct, self._catalog = direct, catalog
        self._by_type: dict[type, tuple[str, Executor]] = {}

    def add(self, name: str, executor: Executor, chosen: Mapping[str, str]) -> None:
        """Let ``executor`` run the kinds it handles; ``chosen`` says whom a kind belongs to when two claim it.

        Raises:
            OperatorError: Two executors claim a kind and the configuration does not choose.
        """
        for task_type in executor.handles:
            kind = KINDS.get(task_type)
            if kind is None:
                known = ", ".join(t.__name__ for t in KINDS)
                raise OperatorError(f"executor {name!r} says it runs {task_type.__name__}; executors run {known}")
            if chosen.get(kind, name) != name:
                continue
            if (other := self._by_type.get(task_type)) is not None:
                raise OperatorError(
                    f"executors {other[0]!r} and {name!r} both run {kind} tasks",
                    f'Choose: [gateway.executors] {kind} = "{name}"',
                )
            self._by_type[task_type] = (name, executor)

    def _harmless(self, task: Task) -> bool:
        """A workflow, whose tasks come down here by themselves, or a tool of the gateway's own that only reads."""
        if isinstance(task, Workflow):
            return True
        entry = self._catalog.get(task.tool) if isinstance(task, ToolCall) else None
        if entry is None or not entry.own:
            return False
        annotations = entry.definition.get("annotations")
        return isinstance(annotations, Mapping) and annotations.get("readOnlyHint") is True

    def execute(self, task: Task, run: Run) -> Awaitable[Outcome]:
        """Run ``task``; a kind that nobody runs is an outcome that says what to install."""
        if run.dry_run and not self._harmless(task):
            return _refused(task, UNREHEARSED)
        if isinstance(task, ToolCall):
            return self._direct.execute(task, run)
        found = self._by_type.get(type(task))
        if found is None:
            kind = KINDS[type(task)]
            message = f"No executor for {kind} tasks is installed; install a plugin that provides one."
            return _refused(task, Failure("executor.missing", message))
        return found[1].execute(task, run)


async def _refused(task: Task, failure: Failure) -> Outcome:
    return ended(task, datetime.now(UTC), Status.ERROR, failure=failure)
