"""One process's work on one run, and what it comes to when it is not the plan that says so."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, Json, Outcome, Status, Workflow, replace
from pml_kit.outcomes import ended
from pml_kit.plain import task_from

from .steps import TaskRow

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Run

    from .journal import RunJournal
    from .workflow import StepWriter

RESUMED = "~resumed"
"""Key in ``Workflow.known``: no task can have such an id."""
CONTINUE = "continue_workflow"
"""The tool that goes on with ordinary workflows; an id that it does not know it hands to ours."""
UNREADABLE = Workflow(id="unreadable", tasks=())


@dataclass(slots=True, eq=False)
class Pass:
    """The work of this process on one run, from when it takes the run to when it lets go."""

    task: Workflow
    done: asyncio.Future[Outcome]
    run: Run | None = None
    """The client's own, when it is there."""
    context: Context | None = None
    """The client's own, too."""
    ours: bool = False
    """Whether DBOS has it by now; until then nobody can take the run away from this pass."""
    work: asyncio.Task[Any] | None = None
    steps: StepWriter | None = None
    journal: RunJournal | None = None
    held: bool = False
    ending: Outcome | None = None
    """Set when the pass is stopped for good: what whoever waits for it is told."""

    def hold(self) -> None:
        """Begin no more tasks."""
        self.held = True
        if self.journal is not None:
            self.journal.held = True

    def stop(self, ending: Outcome | None = None) -> None:
        """End the work where it stands."""
        self.hold()
        self.ending = self.ending or ending
        if self.work is not None:
            self.work.cancel()
        elif ending is not None and not self.done.done():
            self.done.set_result(ending)


def resumed(task: Workflow) -> Workflow:
    """``task``, known to have begun before: what is wrong with it by now is for its tasks to find out, one by one."""
    before = Outcome(task_id=RESUMED, status=Status.OK, started_at=datetime.now(UTC), duration_ms=0)
    return replace(task, known={**task.known, RESUMED: before})


def with_ways(outcome: Outcome, run: str, catalog: Catalog) -> Outcome:
    """``outcome`` of a run that waits, telling clients how to go on with it."""
    if outcome.status is not Status.INPUT_REQUIRED or not isinstance(outcome.output, Mapping):
        return outcome
    tool, key = ("resume_durable_run", "run_id") if catalog.resolve(CONTINUE) is None else (CONTINUE, "workflow_id")
    how = f'To go on, call {tool} {{"{key}": "{run}", "decision": "continue"}}, or on the terminal: '
    told: dict[str, Json] = {"workflow_id": run, "how": f"{how}pml runs resume {run}."}
    failure = outcome.failure
    if failure is not None:
        message = f"{failure.message} {told['how']}" if str(told["how"]) not in failure.message else failure.message
        failure = replace(failure, message=message, details={**failure.details, **told})
    return replace(outcome, output={**outcome.output, **told}, failure=failure)


def plan_of(request: Mapping[str, Any]) -> Workflow:
    """The plan of a run; an empty one, which will fail, where what was kept cannot be read."""
    try:
        task = task_from(request["task"])
    except (KeyError, ValueError):
        return UNREADABLE
    return task if isinstance(task, Workflow) else UNREADABLE


def lost_run(task: Workflow, run: str) -> Outcome:
    """For whoever waits here for a run that is another gateway's by now."""
    message = f"Another gateway has taken run {run} over; pml runs show {run} tells what becomes of it."
    return ended(task, datetime.now(UTC), Status.ERROR, failure=Failure("durable.lost", message))


def in_doubt(task: Workflow, run: str, doubts: Sequence[TaskRow]) -> Outcome:
    """What a run comes to that cannot go on until somebody says what happened to ``doubts``."""
    told: Json = [{"path": row.path, "target": row.target, "started_at": row.started_at} for row in doubts]
    paths = ", ".join(f"{row.path} ({row.target or row.kind})" for row in doubts)
    message = (
        f"The gateway went down while these tasks ran, and nobody knows whether they took effect: {paths}. Find out, "
        f"then say for each: pml runs decide {run} PATH repeat | done | fail. The run then goes on."
    )
    failure = Failure("durable.in_doubt", message, details={"run": run, "in_doubt": told})
    output: Json = {"status": "input_required", "run": run, "in_doubt": told}
    return ended(task, datetime.now(UTC), Status.INPUT_REQUIRED, output=output, failure=failure)
