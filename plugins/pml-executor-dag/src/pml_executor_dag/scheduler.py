"""Runs the tasks of one workflow: each as soon as what it needs has ended well."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CapabilityRun, CodeRun, Failure, Outcome, Status, Task, ToolCall, Workflow

from .plan import Node, dependents_of, values_of
from .references import MissingError, Reference, fill, look_up, pointer
from .results import result_value

if TYPE_CHECKING:
    from pml_hookspecs import Run


class Scheduler:
    """One execution of one workflow."""

    def __init__(self, tasks: Mapping[str, Task], nodes: Mapping[str, Node], run: Run, max_parallel: int) -> None:
        """``nodes`` is the graph of ``tasks``, without mistakes, in plan order."""
        self._tasks, self._nodes, self._run, self._free = tasks, nodes, run, max_parallel
        self._dependents = dependents_of(nodes)
        self._waiting = {id_: len(node.needs) for id_, node in nodes.items()}
        self._ready = deque(id_ for id_, count in self._waiting.items() if not count)
        self.outcomes: dict[str, Outcome] = {}
        """Of the tasks that ended, in the order they did."""
        self.values: dict[str, Any] = {}
        """Result values of the same tasks."""
        self.arguments: dict[str, Mapping[str, Any]] = {}
        """What tasks with references were given in their place."""
        self.warnings: dict[str, list[str]] = {}
        """References that a rehearsal could not follow, by task."""

    async def run(self) -> None:
        """Run every task once, or skip it. Cancelled, it cancels the tasks under way and waits for their end."""
        async with asyncio.TaskGroup() as group:
            self._start(group)

    def _start(self, group: asyncio.TaskGroup) -> None:
        while self._ready and self._free:
            self._free -= 1
            id_ = self._ready.popleft()
            group.create_task(self._one(id_, group), name=f"workflow task {id_}")

    async def _one(self, id_: str, group: asyncio.TaskGroup) -> None:
        outcome = await self._outcome(self._tasks[id_])
        self._free += 1
        self._end(id_, outcome)
        # Cancelled but ended all the same: the group takes no new tasks any more.
        if not _cancelled():
            self._start(group)

    async def _outcome(self, task: Task) -> Outcome:
        started_at = datetime.now(UTC)
        try:
            task = self._filled(task)
        except MissingError as exc:
            return _without_running(task, Status.ERROR, Failure("reference.missing", str(exc)), started_at)
        try:
            return await self._run.dispatch(task)
        except asyncio.CancelledError:
            if _cancelled():
                raise
            failure = Failure("task.cancelled", "Cancelled before it ended.")
            return _without_running(task, Status.CANCELLED, failure, started_at)

    def _filled(self, task: Task) -> Task:
        slots = self._nodes[task.id].slots
        if not slots or isinstance(task, Workflow):
            return task
        warnings: list[str] = []

        def value_of(reference: Reference) -> Any:
            simulated = self.outcomes[reference.task].status is Status.SIMULATED
            try:
                return look_up(reference, self.values[reference.task])
            except MissingError as exc:
                if not simulated:
                    raise
                warnings.append(f"{exc} The result is simulated, so the reference was left as it is.")
                return reference.text

        values = self.arguments[task.id] = fill(values_of(task), slots, value_of)
        made_up = [
            pointer(slot.path)
            for slot in slots
            if any(self.outcomes[reference.task].status is Status.SIMULATED for reference in slot.references)
        ]
        if warnings:
            self.warnings[task.id] = warnings
        return _with_values(task, values, made_up)

    def _end(self, id_: str, outcome: Outcome) -> None:
        ended = deque([(id_, outcome)])
        while ended:
            id_, outcome = ended.popleft()
            self._keep(id_, outcome)
            for dependent in self._dependents[id_]:
                self._waiting[dependent] -= 1
                if self._waiting[dependent]:
                    continue
                if failure := self._obstacle(dependent):
                    now = datetime.now(UTC)
                    ended.append((dependent, _without_running(self._tasks[dependent], Status.SKIPPED, failure, now)))
                else:
                    self._ready.append(dependent)

    def _keep(self, id_: str, outcome: Outcome) -> None:
        try:
            self.values[id_] = result_value(self._tasks[id_], outcome)
        except (ValueError, RecursionError):
            self.values[id_] = None
            message = f"The result of task {id_!r} cannot be read as JSON."
            outcome = replace(outcome, status=Status.ERROR, output=None, failure=Failure("result.unreadable", message))
        self.outcomes[id_] = outcome
        self._run.progress(len(self.outcomes), len(self._nodes), f"{id_}: {outcome.status}")

    def _obstacle(self, id_: str) -> Failure | None:
        """Why ``id_`` cannot run now that what it needs has ended; None when it can."""
        ends = {need: self.outcomes[need].status for need in self._nodes[id_].needs}
        bad = [need for need, status in ends.items() if not status.good]
        if not bad:
            return None
        named = ", ".join(f"{need!r} ({ends[need]})" for need in bad)
        message = f"Not run: it needs {named}. Mend what failed and run the workflow again."
        return Failure("task.skipped", message, details={"needs": bad})


def _cancelled() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _with_values(task: ToolCall | CodeRun | CapabilityRun, values: Mapping[str, Any], made_up: list[str]) -> Task:
    if not isinstance(task, ToolCall):
        return replace(task, inputs=values)
    if not made_up:
        return replace(task, arguments=values)
    # Tells the check of arguments that these come from a rehearsal and need not fit.
    meta = {**task.extra.get("_meta", {}), "pml/simulated": {"arguments": made_up}}
    return replace(task, arguments=values, extra={**task.extra, "_meta": meta})


def _without_running(task: Task, status: Status, failure: Failure, started_at: datetime) -> Outcome:
    return Outcome(task_id=task.id, status=status, started_at=started_at, duration_ms=0, failure=failure)
