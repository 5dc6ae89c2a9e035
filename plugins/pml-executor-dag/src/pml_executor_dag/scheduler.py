"""Runs the tasks of one workflow: each as soon as what it needs has ended well."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, InvalidArguments, Outcome, Status, Task, ToolCall, Workflow, replace
from pml_kit.system.clock import Clock

from .items import Items
from .jobs import UNDO, Job, ResultLookup, delay_s, ended_at, explained, fill_job, without_running
from .plan import CONDITIONS, Node, dependents_of, external_ids
from .references import MissingError
from .results import result_value

if TYPE_CHECKING:
    from pml_hookspecs import Run

Recall = Callable[[str], Awaitable[Mapping[str, Outcome]]]
"""Known outcomes of the workflow that waits under an id. Raises InvalidArguments when there is none."""
UNWANTED = "condition.false"
"""Code of tasks that are not run because of ``when``."""
TIME_OVER = "workflow.timed_out"


class Scheduler:
    """One execution of one workflow."""

    def __init__(
        self,
        workflow: Workflow,
        nodes: Mapping[str, Node],
        run: Run,
        max_parallel: int,
        recall: Recall | None = None,
    ) -> None:
        """``nodes`` is the graph of ``workflow``, without mistakes, in plan order."""
        self._workflow, self._nodes, self._run, self._free = workflow, nodes, run, max_parallel
        self._recall = recall
        self._tasks = {task.id: task for task in workflow.tasks}
        self._dependents = dependents_of(nodes)
        self._waiting = {id_: len(node.depends_on) for id_, node in nodes.items()}
        self._ready: deque[Job] = deque()
        self._begun: dict[str, datetime] = {}
        self._holding = False
        self.found = ResultLookup(
            {id_: workflow.known[id_].output for id_ in external_ids(workflow) & workflow.known.keys()}, set(), set()
        )
        """What references see."""
        self.items: dict[str, Items] = {}
        """Items of the tasks with ``for_each`` that have begun."""
        self.outcomes: dict[str, Outcome] = {}
        """Outcomes of the tasks that ended or wait for somebody, in that order."""
        self.values: dict[str, Any] = {}
        """Result values of the same tasks."""
        self.completed: list[Job] = []
        """What ended well, in the order it did."""
        self.undone = {id_.removesuffix(UNDO): o for id_, o in workflow.known.items() if _is_undone(id_, o)}
        """What came of undoing tasks and items before, by their ids."""
        self.arguments: dict[str, Any] = {}
        """What tasks with references were given in their place; of items, an array."""
        self.warnings: dict[str, list[str]] = {}
        """What a rehearsal could not know, by task."""
        self.attempts: dict[str, int] = {}
        """Attempts at tasks that were tried more than once: the most that one item took."""
        self.held: list[str] = []
        """Tasks that could begin now, but for the next layer's being waited for."""
        self.timed_out = False
        self.tool_calls = 0
        """That this execution dispatched itself."""
        self.cost_usd: float | None = None

    async def run(self) -> None:
        """Run every task once, or skip it. Cancelled, it cancels the tasks under way and waits for their end."""
        self._know()
        try:
            async with Clock(self._run, self._workflow.timeout_s) as limit, asyncio.TaskGroup() as group:
                self._open([id_ for id_ in self._nodes if id_ not in self.outcomes and not self._waiting[id_]])
                self._holding = self._workflow.by_layer and not self._run.dry_run
                self._start(group)
        except TimeoutError:
            if not limit.expired:
                raise
            self._stop()

    @property
    def waits(self) -> list[str]:
        """Ids of tasks that wait for somebody, in the order they began to."""
        return [id_ for id_, outcome in self.outcomes.items() if outcome.status is Status.INPUT_REQUIRED]

    def known(self) -> dict[str, Outcome]:
        """Outcomes that need not be found out again, the first to end first; those of items under their own ids."""
        known = {id_: o for id_, o in self._workflow.known.items() if id_ not in self._tasks}
        for id_, items in self.items.items():
            known |= {f"{id_}[{i}]": o for i, o in enumerate(items.outcomes) if o is not None and _final(o)}
        known |= {id_: outcome for id_, outcome in self.outcomes.items() if _final(outcome)}
        return dict(sorted(known.items(), key=lambda pair: ended_at(pair[1])))

    def _know(self) -> None:
        known = self._workflow.known
        for id_, outcome in sorted(known.items(), key=lambda pair: ended_at(pair[1])):
            if id_ not in self._tasks or outcome.status is Status.INPUT_REQUIRED:
                continue
            self._keep(id_, outcome)
            for dependent in self._dependents[id_]:
                self._waiting[dependent] -= 1
            task = self._tasks[id_]
            if task.step.for_each is None:
                self.completed += [Job(task, id_)] if outcome.status is Status.OK else []
            elif task.step.compensate is not None:
                self._items_of(task)

    def _start(self, group: asyncio.TaskGroup) -> None:
        while self._ready and self._free:
            self._free -= 1
            job = self._ready.popleft()
            group.create_task(self._one(job, group), name=f"workflow task {job.path_id}")

    async def _one(self, job: Job, group: asyncio.TaskGroup) -> None:
        outcome = await self._outcome(job)
        self._free += 1
        self._count(job, outcome)
        # Cancelled but ended all the same: the group takes no new tasks any more.
        going_on = not _cancelled()
        delay = delay_s(job, outcome) if going_on and not self._run.dry_run else None
        if delay is not None:
            group.create_task(self._later(job, delay, group), name=f"workflow task {job.path_id}, again")
        else:
            id_ = job.task.id
            self._open(self._finished(job, outcome if outcome.task_id == id_ else replace(outcome, task_id=id_)))
        if going_on:
            self._start(group)

    async def _later(self, job: Job, delay: float, group: asyncio.TaskGroup) -> None:
        await asyncio.sleep(delay)
        job.attempt += 1
        self.attempts[job.task.id] = max(self.attempts.get(job.task.id, 1), job.attempt)
        self._ready.append(job)
        self._start(group)

    def _count(self, job: Job, outcome: Outcome) -> None:
        self.tool_calls += isinstance(job.task, ToolCall) and job.filled is not None
        if outcome.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + outcome.cost_usd

    async def _outcome(self, job: Job) -> Outcome:
        started_at = datetime.now(UTC)
        if job.filled is None:
            try:
                job.filled = self._filled(job)
            except MissingError as exc:
                return without_running(job.task, Status.ERROR, exc.failure, started_at)
            if (failure := await self.resume(job)) is not None:
                return without_running(job.task, Status.ERROR, failure, started_at)
        task = job.filled if job.filled.id == job.path_id else replace(job.filled, id=job.path_id)
        return explained(task, await attempt(task, self._run, started_at), self._nodes)

    def _filled(self, job: Job) -> Task:
        task, warnings, values = fill_job(job, self._nodes[job.task.id].slots, self.found)
        if warnings:
            self.warnings.setdefault(job.task.id, []).extend(warnings)
        if values is not None and job.index is None:
            self.arguments[job.task.id] = values
        elif values is not None:
            self.arguments.setdefault(job.task.id, []).append(values)
        return task

    async def resume(self, job: Job) -> Failure | None:
        """Give a workflow what ended in it before it began to wait for somebody; any other task stays as it is.

        Returns:
            Why that is not known; the job is not filled then, as the workflow would begin from its start.
        """
        task, before = job.filled, self._workflow.known.get(job.child)
        if before is None or before.failure is None or not isinstance(task, Workflow) or self._recall is None:
            return None
        id_ = before.failure.details.get("workflow_id")
        if not isinstance(id_, str):
            return None
        job.filled = None
        try:
            known = await self._recall(id_)
        except InvalidArguments as exc:
            return Failure("workflow.forgotten", str(exc))
        except Exception as exc:
            message = f"What had ended in this part cannot be read ({exc or type(exc).__name__}); nothing of it ran."
            return Failure("store.unavailable", message, retryable=True)
        job.filled = replace(task, known={**task.known, **known})
        return None

    def _open(self, ids: Iterable[str]) -> None:
        """Begin tasks whose needs are over, and those that may begin because one of these is over at once."""
        opening = deque(ids)
        while opening:
            id_ = opening.popleft()
            outcome = self._begin(self._tasks[id_])
            if outcome is not None:
                opening.extend(self._end(id_, outcome))

    def _begin(self, task: Task) -> Outcome | None:
        """Make ``task`` ready; its outcome if it has one without being run."""
        if failure := self._obstacle(task.id):
            return without_running(task, Status.SKIPPED, failure)
        if self._holding:
            self.held.append(task.id)
            return None
        if (outcome := self._unwanted(task)) is not None:
            return outcome
        self._begun[task.id] = datetime.now(UTC)
        if task.step.for_each is None:
            self._ready.append(Job(task, task.id))
            return None
        items = self._items_of(task)
        if isinstance(items, Outcome):
            return items
        self._ready.extend(items.jobs())
        return None if items.left else items.gathered()

    def _items_of(self, task: Task) -> Items | Outcome:
        known = self._workflow.known
        items = Items.of(task, self._nodes[task.id].each, self.found, known, self.warnings.setdefault(task.id, []))
        if not self.warnings[task.id]:
            del self.warnings[task.id]
        if isinstance(items, Items):
            self.items[task.id] = items
            self.completed += [job for job, outcome in items.settled() if outcome.status is Status.OK]
        return items

    def _finished(self, job: Job, outcome: Outcome) -> list[str]:
        """Keep the outcome of a job; the tasks that may begin now."""
        if outcome.status is Status.OK:
            self.completed.append(job)
        if job.index is None:
            return self._end(job.task.id, outcome)
        items = self.items[job.task.id]
        items.put(job.index, outcome)
        return [] if items.left else self._end(job.task.id, items.gathered())

    def _end(self, id_: str, outcome: Outcome) -> list[str]:
        self._keep(id_, outcome)
        outcome = self.outcomes[id_]
        if self._run.wants_progress:
            self._run.progress(len(self.outcomes), len(self._nodes), f"{id_}: {outcome.status}")
        if outcome.status is Status.INPUT_REQUIRED:
            return []
        freed = []
        for dependent in self._dependents[id_]:
            self._waiting[dependent] -= 1
            if not self._waiting[dependent]:
                freed.append(dependent)
        return freed

    def _keep(self, id_: str, outcome: Outcome) -> None:
        task = self._tasks[id_]
        try:
            self.values[id_] = result_value(task, outcome)
        except (ValueError, RecursionError):
            self.values[id_] = None
            message = f"The result of task {id_!r} cannot be read as JSON."
            outcome = replace(outcome, status=Status.ERROR, output=None, failure=Failure("result.unreadable", message))
        self.outcomes[id_] = outcome
        self.found.results[id_] = self.values[id_]
        if outcome.status is Status.OK:
            return
        if outcome.status is Status.SIMULATED:
            self.found.simulated.add(id_)
        elif not outcome.status.good and (task.step.for_each is None or not isinstance(outcome.output, list)):
            self.found.results[id_] = None
            self.found.empty.add(id_)

    def _obstacle(self, id_: str) -> Failure | None:
        """Why ``id_`` cannot run now that what it needs has ended; None when it can."""
        bad = [need for need in self._nodes[id_].depends_on if not self._lets_go_on(need)]
        if not bad:
            return None
        named = ", ".join(f"{need!r} ({self.outcomes[need].status})" for need in bad)
        message = f"Not run: it needs {named}. Mend what failed and run the workflow again."
        return Failure("task.skipped", message, details={"depends_on": bad})

    def _lets_go_on(self, id_: str) -> bool:
        outcome = self.outcomes[id_]
        if outcome.status is Status.OK:
            return True
        if outcome.status is Status.SKIPPED:
            return outcome.failure is not None and outcome.failure.code == UNWANTED
        return outcome.status.good or self._tasks[id_].step.on_error == "continue"

    def _unwanted(self, task: Task) -> Outcome | None:
        """The outcome of a task whose condition does not hold, or cannot be evaluated."""
        condition = self._nodes[task.id].when
        if condition is None:
            return None
        from pml_kit.expressions import ExpressionError

        if simulated := [need for need in self._nodes[task.id].depends_on if need in self.found.simulated]:
            warning = f"when: {', '.join(simulated)} is simulated; rehearsed as if the condition held."
            self.warnings.setdefault(task.id, []).append(warning)
            return None
        try:
            holds = condition.holds({need: self.found.results[need] for need in self._nodes[task.id].depends_on})
        except ExpressionError as exc:
            return without_running(task, Status.ERROR, Failure("condition.failed", f"when: {exc}; {CONDITIONS}"))
        failure = Failure(UNWANTED, f"Not run: its condition does not hold: {condition.text}")
        return None if holds else without_running(task, Status.SKIPPED, failure)

    def _stop(self) -> None:
        """Say of everything that has not ended why: the time of the workflow is over."""
        self.timed_out = True
        limit = f"the workflow's time (timeout_s: {self._workflow.timeout_s:g} s) was over"
        ended = {Status.TIMED_OUT: f"Ended: {limit}.", Status.SKIPPED: f"Not run: {limit}."}
        for id_ in self._nodes:
            if id_ in self.outcomes:
                continue
            status = Status.TIMED_OUT if id_ in self._begun else Status.SKIPPED
            failure = Failure(TIME_OVER, ended[status], retryable=True)
            outcome = without_running(self._tasks[id_], status, failure, self._begun.get(id_))
            self._keep(id_, replace(outcome, output=self.items[id_].results) if id_ in self.items else outcome)


async def attempt(task: Task, run: Run, started_at: datetime) -> Outcome:
    """Dispatch ``task``, for no longer than its step says; while the workflow asks people, that stands still."""
    limit_s = task.step.timeout_s
    try:
        if limit_s is None:
            return await run.dispatch(task)
        async with Clock(run, limit_s) as limit:
            outcome = await run.dispatch(task)
            # Where a journal keeps outcomes, it found this limit to be the end of the attempt.
            return outcome if outcome.status is not Status.CANCELLED else _too_late(task, limit_s, started_at)
    except TimeoutError:
        if limit_s is None or not limit.expired:
            raise
        return _too_late(task, limit_s, started_at)
    except asyncio.CancelledError:
        if _cancelled():
            raise
        failure = Failure("task.cancelled", "Cancelled before it ended.")
        return without_running(task, Status.CANCELLED, failure, started_at)


def _too_late(task: Task, limit_s: float, started_at: datetime) -> Outcome:
    failure = Failure("task.timed_out", f"No result in {limit_s:g} s (timeout_s).", retryable=True)
    return without_running(task, Status.TIMED_OUT, failure, started_at)


def _is_undone(id_: str, outcome: Outcome) -> bool:
    return id_.endswith(UNDO) and outcome.status is not Status.INPUT_REQUIRED


def _cancelled() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _final(outcome: Outcome) -> bool:
    """Whether it stays so; what waits is kept only where it tells under which id."""
    if outcome.status is not Status.INPUT_REQUIRED:
        return True
    return outcome.failure is not None and "workflow_id" in outcome.failure.details
