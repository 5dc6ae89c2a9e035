"""What a scheduler has under way: one attempt at one task, or at one item of it."""

from __future__ import annotations

import random
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pml_hookspecs import (
    CapabilityRun,
    CodeRun,
    Failure,
    InvalidArguments,
    Json,
    Outcome,
    PluginTask,
    Status,
    Task,
    ToolCall,
    Workflow,
    replace,
)
from pml_kit.offers.plan_graphs import INDEX, ITEM
from pml_kit.references import Reference, Slot, values_of

from .expansion import Expansion
from .references import MissingError, fill, in_code, look_up, pointer

USELESS = frozenset({"arguments", "budget", "condition", "dry_run", "executor", "for_each", "reference", "workflow"})
"""First words of codes of failures that come again whenever the same is tried."""
NEVER_AGAIN = frozenset({"tool.unknown", "task.too_deep"})
UNDO = "~undo"
"""What follows the id of a task, or of an item of one, in the id of what undoes it."""
LEAST_OF_DELAY = 0.5
"""Part of a delay that is always waited; the rest is left to chance, so that not all come back at once."""


@dataclass(slots=True)
class Job:
    """One run of a task: all of it, or for one item of ``for_each``."""

    task: Task
    child: str
    """Id of the child, without the number of the attempt."""
    index: int | None = None
    """Index of the item; None for a task without ``for_each``."""
    item: Any = None
    placeholder: bool = False
    """The item stands for those that a rehearsal does not know."""
    attempt: int = 1
    filled: Task | None = None
    """The task with references followed."""

    @property
    def path_id(self) -> str:
        """Id that the child is dispatched under: ``a``, ``a[0]``, and from the second attempt on ``a#2``.

        The same on every run of the plan, and different for everything that can have an outcome of its own: outcomes
        of durable runs are kept by it.
        """
        return self.child if self.attempt == 1 else f"{self.child}#{self.attempt}"


def delay_s(job: Job, outcome: Outcome) -> float | None:
    """How long to wait before the next attempt [s]; None when there is none."""
    retry = job.task.step.retry
    if job.attempt >= retry.attempts or outcome.status not in (Status.ERROR, Status.TIMED_OUT):
        return None
    code = "" if outcome.failure is None else outcome.failure.code
    if code.partition(".")[0] in USELESS or code in NEVER_AGAIN:
        return None
    full = min(retry.most_delay_s, retry.delay_s * 2.0 ** (job.attempt - 1))
    return full * random.uniform(LEAST_OF_DELAY, 1)  # noqa: S311 - nobody gains by guessing it


@dataclass(slots=True)
class ResultLookup:
    """Looks up the results that references in arguments name."""

    results: dict[str, Any]
    """By id; what is not there yet is not referred to."""
    empty: set[str]
    """Ids of tasks that left nothing though others go on: any reference into them finds null."""
    simulated: set[str]
    expansion: Expansion = field(default_factory=Expansion)
    """What references have brought in so far."""
    stored: Mapping[str, Json | InvalidArguments] = field(default_factory=dict)
    """What references to stored results find, by their text; where that is nothing, why."""

    def follow(self, reference: Reference, job: Job | None, warnings: list[str]) -> Any:
        """What ``reference`` in the arguments of ``job`` finds.

        Raises:
            MissingError: Nothing, and the result is real.
        """
        if reference.stored:
            found = self.stored[reference.text]
            if isinstance(found, InvalidArguments):
                raise MissingError(f"{reference.text} finds nothing: {found}")
            return found
        name = reference.task
        if job is not None and job.index is not None and name in (ITEM, INDEX):
            if job.placeholder:
                return reference.text
            return look_up(reference, job.item if name == ITEM else job.index)
        if name in self.empty:
            return None
        try:
            return look_up(reference, self.results[name])
        except MissingError as exc:
            if name not in self.simulated:
                raise
            warnings.append(f"{exc} The result is simulated, so the reference was left as it is.")
            return reference.text

    def fill(self, values: Mapping[str, Any], slots: Sequence[Slot], job: Job | None, warnings: list[str]) -> Any:
        """``values`` with the slots replaced.

        Raises:
            MissingError: A reference finds nothing.
        """
        return fill(values, slots, lambda reference: self.follow(reference, job, warnings), self.expansion.of_task())

    def shown(self, values: Mapping[str, Any], slots: Sequence[Slot], job: Job, filled: Mapping[str, Any]) -> Any:
        """``filled`` as a report tells of it: stored results are put in past whoever reads that."""
        if not any(reference.stored for slot in slots for reference in slot.references):
            return filled
        return fill(values, slots, lambda one: one.text if one.stored else self.follow(one, job, []), _free)

    def simulated_pointers(self, slots: Sequence[Slot], job: Job) -> list[str]:
        """JSON Pointers of the slots that hold something from a rehearsal."""
        if not self.simulated and not job.placeholder:
            return []
        return [
            pointer(slot.path)
            for slot in slots
            if any(
                reference.task in self.simulated or (job.placeholder and reference.task in (ITEM, INDEX))
                for reference in slot.references
            )
        ]


def _free(reference: Reference, value: Any, *, whole: bool) -> None:
    """Counts nothing."""


def fill_job(job: Job, slots: Sequence[Slot], found: ResultLookup) -> tuple[Task, list[str], Mapping[str, Any] | None]:
    """The task that ``job`` runs, warnings, and what a report tells it was given; None without references.

    Raises:
        MissingError: A reference finds nothing.
    """
    task = job.task
    if isinstance(task, Workflow):
        return (task if job.index is None else _with_item(task, job)), [], None
    warnings: list[str] = []
    values: Mapping[str, Any] = values_of(task)
    shown = values
    if slots:
        values = found.fill(values, slots, job, warnings)
        shown = found.shown(values_of(task), slots, job, values)
    if isinstance(task, ToolCall):
        return (
            (_called(task, values, found.simulated_pointers(slots, job)) if slots else task),
            warnings,
            shown if slots else None,
        )
    if task.depends_on and not isinstance(task, PluginTask):
        # What the plan gives under such a name comes first.
        needed = {need: found.results.get(need) for need in task.depends_on}
        values, shown = {**needed, **values}, {**needed, **shown}
    if values is values_of(task) or not isinstance(task, (CodeRun, CapabilityRun, PluginTask)):
        return task, warnings, None
    return replace(task, inputs=values), warnings, shown


def _called(task: ToolCall, values: Mapping[str, Any], pointers: list[str]) -> ToolCall:
    extra = task.extra
    if pointers:
        # Tells the check of arguments that these come from a rehearsal and need not fit.
        extra = {**extra, "_meta": {**extra.get("_meta", {}), "pml/simulated": {"arguments": pointers}}}
    return replace(task, arguments=values, extra=extra)


def _with_item(task: Workflow, job: Job) -> Workflow:
    """Its tasks refer to the item as to the result of a task that ended before."""
    now = datetime.now(UTC)
    given = {
        name: Outcome(task_id=name, status=Status.OK, started_at=now, duration_ms=0, output=value)
        for name, value in ((ITEM, job.item), (INDEX, job.index))
    }
    return replace(task, known={**task.known, **given})


def gathered(task: Task, outcomes: Sequence[Outcome], results: list[Any], started_at: datetime) -> Outcome:
    """The outcome of a task with ``for_each``, of those of its items; its output is the array of results."""
    failed = [(i, o) for i, o in enumerate(outcomes) if not o.status.good and o.status is not Status.INPUT_REQUIRED]
    waiting = [o for o in outcomes if o.status is Status.INPUT_REQUIRED]
    if waiting and (not failed or task.step.on_error == "continue"):
        return replace(waiting[0], task_id=task.id, output=results)
    status, failure = Status.OK, None
    if failed:
        status = Status.TIMED_OUT if all(o.status is Status.TIMED_OUT for _, o in failed) else Status.ERROR
        failure = _failure(outcomes, failed)
    elif any(o.status is Status.SIMULATED for o in outcomes):
        status = Status.SIMULATED
    return Outcome(
        task_id=task.id,
        status=status,
        started_at=started_at,
        duration_ms=milliseconds_since(started_at),
        output=results,
        failure=failure,
    )


MOST_NAMED = 5
"""Items that a message names."""


def _failure(outcomes: Sequence[Outcome], failed: Sequence[tuple[int, Outcome]]) -> Failure:
    named = "; ".join(
        f"[{i}] ({o.failure.code}: {o.failure.message})" if o.failure else f"[{i}]" for i, o in failed[:MOST_NAMED]
    )
    more = f"; and {len(failed) - MOST_NAMED} more" if len(failed) > MOST_NAMED else ""
    return Failure(
        "items.failed",
        f"{len(failed)} of {len(outcomes)} items failed: {named}{more}.",
        retryable=all(o.failure is not None and o.failure.retryable for _, o in failed),
        details={"failed": [i for i, _ in failed]},
    )


def milliseconds_since(started_at: datetime) -> int:
    """Wall time until now, rounded [ms]."""
    return round((datetime.now(UTC) - started_at) / timedelta(milliseconds=1))


def ended_at(outcome: Outcome) -> datetime:
    """When the outcome was known."""
    return outcome.started_at + timedelta(milliseconds=outcome.duration_ms)


def without_running(task: Task, status: Status, failure: Failure, started_at: datetime | None = None) -> Outcome:
    """The outcome of a task that was not run, or not to its end."""
    started_at = started_at or datetime.now(UTC)
    return Outcome(
        task_id=task.id,
        status=status,
        started_at=started_at,
        duration_ms=milliseconds_since(started_at),
        failure=failure,
    )


def explained(task: Task, outcome: Outcome, tasks: Container[str]) -> Outcome:
    """``outcome``; of code that failed with a reference in it, with how code gets at the results of ``tasks``."""
    if outcome.failure is None or not isinstance(task, CodeRun) or (found := in_code(task.source, tasks)) is None:
        return outcome
    how = f'; depends_on: ["{found.task}"] gives the code the variable {found.task}.'
    message = f"{outcome.failure.message}\n{found.text} is not filled in within code{how}"
    return replace(outcome, failure=replace(outcome.failure, message=message))
