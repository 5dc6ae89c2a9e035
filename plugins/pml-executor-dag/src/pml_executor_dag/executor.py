"""The executor of workflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from pml_hookspecs import Failure, Outcome, Status, Workflow, replace
from pml_kit.offers import Verdict, stored_values

from .fields import refusal
from .jobs import UNDO, milliseconds_since, without_running
from .missing_tools import has_begun, missing_results, missing_tools
from .pauses.agreement import is_agreed_on
from .plan import graph_of, layers
from .report import failure_of, report
from .scheduler import Scheduler
from .settings import Settings
from .undo import UndoResult, undo, with_undone

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionId, Run, Services, Session, Task

    from .plan import Node

HAS_FAILED = Failure("workflow.over", "Not run: the workflow has failed.")


class Dag:
    """Runs workflows. Every task goes through the gateway's whole chain of wrappers."""

    handles: ClassVar[frozenset[type]] = frozenset({Workflow})
    settings_type = Settings

    def __init__(
        self,
        settings: Settings | None = None,
        services: Services | None = None,
    ) -> None:
        """Without ``services``, a workflow that waits for somebody cannot be continued, and intents get no plans."""
        self._settings, self._services = settings or Settings(), services
        self._under_way: set[ExecutionId] = set()

    async def execute(self, task: Task, run: Run) -> Outcome:
        """Run a workflow to its end, or until it waits for somebody.

        Returns:
            ``OK``, or ``SIMULATED`` in a dry run, when every task ended well or was allowed not to; ``INPUT_REQUIRED``
            with the code ``workflow.waiting`` or ``workflow.layer_complete`` when it can be continued; ``TIMED_OUT``
            with the code ``workflow.timed_out``; else ``ERROR`` with the code ``workflow.failed``. In each case the
            output tells of every task, in plan order. ``ERROR`` with the code ``workflow.invalid`` and no output when
            the graph has mistakes, or ``arguments.invalid`` when its request had; nothing ran then. Without tasks and
            with an intent: what came of planning, with the code ``plan.explicit_required`` when there is no plan.

        Raises:
            TypeError: ``task`` is no workflow.
        """
        if not isinstance(task, Workflow):
            raise TypeError(f"the dag executor runs workflows, not {type(task).__name__}")
        started_at, about = datetime.now(UTC), {}
        if not task.tasks and task.intent and not task.mistakes:
            from .planning import plan

            planned = await plan(task, run, self._settings, self._services)
            if planned.workflow is None:
                status = Status.OK if planned.failure is None else Status.ERROR
                return _finished_outcome(task, started_at, status, output=planned.about, failure=planned.failure)
            task, about = planned.workflow, {"planned": planned.about}
            if run.dry_run or is_agreed_on(task):
                # Now that there is a plan, everything that looks at plans is to see it.
                outcome = replace(await run.dispatch(task), task_id=task.id)
                output = outcome.output
                return replace(outcome, output={**output, **about}) if isinstance(output, Mapping) else outcome
        if task.mistakes:
            failure = Failure("arguments.invalid", refusal(task.mistakes))
            return _finished_outcome(task, started_at, Status.ERROR, failure=failure)
        nodes, mistakes = graph_of(task)
        references = (one for node in nodes.values() for one in node.references())
        stored = await stored_values(self._services, references, run.session)
        if mistakes := mistakes + self._missing_tools(task, run) + missing_results(task, nodes, stored, run):
            return _finished_outcome(
                task, started_at, Status.ERROR, failure=Failure("workflow.invalid", refusal(mistakes))
            )
        most = min(task.max_parallel or self._settings.max_parallel, self._settings.max_parallel)
        ran = Scheduler(task, nodes, run, most, lambda id_: self._recall(id_, run))
        ran.found.stored = stored
        self._under_way.add(run.id)
        try:
            await ran.run()
            outcome = await self._ended(task, nodes, ran, run, started_at)
        finally:
            self._under_way.discard(run.id)
        return replace(outcome, output={**outcome.output, **about}) if isinstance(outcome.output, dict) else outcome

    async def check(self, task: Task, session: Session, *, within_s: float) -> Verdict:
        """The graph of a workflow, and what is wrong with it; nothing of its tools, which are the catalog's."""
        from .plan_check import verdict_of

        return verdict_of(task) if isinstance(task, Workflow) else Verdict()

    def _missing_tools(self, task: Workflow, run: Run) -> list[str]:
        part = run.parent in self._under_way
        # A rehearsal runs nothing, and tells of each task what is wrong with it.
        if self._services is None or part or run.dry_run or has_begun(task):
            return []
        return missing_tools(task.tasks, self._services.catalog, run.session)

    async def _ended(
        self, task: Workflow, nodes: Mapping[str, Node], ran: Scheduler, run: Run, started_at: datetime
    ) -> Outcome:
        failure, status = failure_of(task.tasks, ran.outcomes), Status.ERROR
        if ran.timed_out:
            told = f"The workflow did not end in {task.timeout_s:g} s (timeout_s)."
            ended = [id_ for id_, outcome in ran.outcomes.items() if outcome.status is Status.TIMED_OUT]
            details = {
                "timed_out": ended,
                "skipped": [i for i, o in ran.outcomes.items() if o.status is Status.SKIPPED],
            }
            failure, status = Failure("workflow.timed_out", told, retryable=True, details=details), Status.TIMED_OUT
        if failure is None and (ran.waits or ran.held):
            return await self._paused(task, nodes, ran, run, started_at)
        undone = [] if failure is None or run.dry_run else await undo(ran, nodes, run)
        if failure is None:
            status = Status.SIMULATED if run.dry_run else Status.OK
        elif (waits := next((one for one in undone if one.waits), None)) is not None:
            paused = await self._undoing(task, nodes, ran, run, started_at, failure, undone, waits)
            if paused is not None:
                return paused
        words = {Status.OK: "completed", Status.ERROR: "failed"}
        output = report(task, nodes, ran, words.get(status, status.value), dry_run=run.dry_run)
        if undone:
            output["compensated"] = [one.told() for one in undone]
        failure = None if failure is None else with_undone(failure, undone)
        return _finished_outcome(task, started_at, status, output=output, failure=failure, cost_usd=ran.cost_usd)

    async def _paused(
        self, task: Workflow, nodes: Mapping[str, Node], ran: Scheduler, run: Run, started_at: datetime
    ) -> Outcome:
        waiting = [about for id_ in ran.waits for about in _waiting(id_, ran)]
        status = "input_required" if waiting else "layer_complete"
        output = report(task, nodes, ran, status, dry_run=run.dry_run)
        details: dict[str, Any] = {"waiting": waiting} if waiting else {}
        if ran.held:
            details["next"] = [id_ for id_ in nodes if id_ in ran.held]
            done = [layer for layer in layers(nodes) if all(id_ in ran.outcomes for id_ in layer)]
            details["layer"] = len(done)
        details |= await self._keep(task, ran, run)
        output |= details
        if waiting:
            named = ", ".join(str(one["id"]) for one in waiting)
            message = f"The workflow waits for an answer or an approval: {named}. {output['how']}"
        else:
            message = f"A layer of the workflow has ended; next: {', '.join(details['next'])}. {output['how']}"
        failure = Failure("workflow.waiting" if waiting else "workflow.layer_complete", message, details=details)
        return _finished_outcome(
            task, started_at, Status.INPUT_REQUIRED, output=output, failure=failure, cost_usd=ran.cost_usd
        )

    async def _undoing(
        self,
        task: Workflow,
        nodes: Mapping[str, Node],
        ran: Scheduler,
        run: Run,
        started_at: datetime,
        failure: Failure,
        undone: Sequence[UndoResult],
        waits: UndoResult,
    ) -> Outcome | None:
        """A workflow that has failed, and waits for somebody with what undoes it; None when it cannot be kept."""
        known = {**ran.known(), **{f"{one.id}{UNDO}": one.outcome for one in undone}}
        for left in task.tasks:
            if left.id not in known or known[left.id].status is Status.INPUT_REQUIRED:
                known[left.id] = without_running(left, Status.CANCELLED, HAS_FAILED)
        details: dict[str, Any] = {"waiting": [_waits(f"{waits.id}{UNDO}", waits.outcome)]}
        details |= await self._keep(task, ran, run, known)
        if "workflow_id" not in details and not run.durable:
            return None
        output = report(task, nodes, ran, "input_required", dry_run=False)
        output |= {**details, "compensated": [one.told() for one in undone]}
        message = (
            f"The workflow has failed, and undoing what it did waits for an answer or an approval: {waits.id}. "
            f"{output['how']} Why it failed: {failure.message}"
        )
        waiting = Failure("workflow.waiting", message, details=details)
        return _finished_outcome(
            task, started_at, Status.INPUT_REQUIRED, output=output, failure=waiting, cost_usd=ran.cost_usd
        )

    async def _keep(
        self, task: Workflow, ran: Scheduler, run: Run, known: Mapping[str, Outcome] | None = None
    ) -> dict[str, Any]:
        """Keep how far ``task`` got; the id that it waits under, and what to do with it.

        Args:
            task: The workflow.
            ran: What ran of it.
            run: Its execution.
            known: Outcomes that need not be found out again; None for those of ``ran``.
        """
        from .pauses.paused_workflows import keep

        undoing = known is not None
        if run.durable:
            return {"how": "It is part of a durable run, and goes on with that; see pml runs."}

        left = replace(
            task,
            known=ran.known() if known is None else known,
            dry_run=run.dry_run,
            max_tool_calls=None if task.max_tool_calls is None else max(task.max_tool_calls - ran.tool_calls, 0),
            max_cost_usd=None if task.max_cost_usd is None else max(task.max_cost_usd - (ran.cost_usd or 0), 0),
        )
        part = run.parent in self._under_way
        try:
            if self._services is None:
                raise RuntimeError("there is no store")
            documents = self._services.store.documents
            expires_at = await keep(documents, run.id, left, run.session, part=part, keep_s=self._settings.keep_s)
        except Exception:
            if self._services is not None:
                self._services.log.exception("a workflow that waits cannot be kept", execution=run.id)
            return {"how": "It cannot be continued, because the store did not take it; run it again when it can."}
        ways = f'continue_workflow {{"workflow_id": "{run.id}", "decision": "continue"}}'
        others = "" if undoing else ', or "abort", or "replan" with tasks'
        return {
            "workflow_id": str(run.id),
            "expires_at": expires_at.isoformat(timespec="seconds"),
            "how": "It goes on with the workflow that it is part of." if part else f"To go on, call {ways}{others}.",
        }

    async def _recall(self, id_: str, run: Run) -> Mapping[str, Outcome]:
        from .pauses.paused_workflows import known_of

        if self._services is None:
            raise RuntimeError("there is no store")
        return await known_of(self._services.store.documents, id_, run.session)


def _waiting(id_: str, ran: Scheduler) -> list[dict[str, Any]]:
    """What of task ``id_`` waits, and why; of a workflow, what waits in it."""
    items = ran.items.get(id_)
    children = [(id_, ran.outcomes[id_])]
    if items is not None:
        children = [(f"{id_}[{i}]", o) for i, o in enumerate(items.outcomes) if o is not None]
    told: list[dict[str, Any]] = []
    for child, outcome in children:
        if outcome.status is not Status.INPUT_REQUIRED or outcome.failure is None:
            continue
        inner = outcome.failure.details.get("waiting")
        if isinstance(inner, (list, tuple)):
            told += [{**one, "id": f"{child}/{one['id']}"} for one in inner if isinstance(one, dict)]
            continue
        told.append(_waits(child, outcome))
    return told


def _waits(id_: str, outcome: Outcome) -> dict[str, Any]:
    failure = outcome.failure
    return (
        {"id": id_}
        if failure is None
        else {"id": id_, "code": failure.code, "message": failure.message} | dict(failure.details)
    )


def _finished_outcome(
    task: Workflow,
    started_at: datetime,
    status: Status,
    *,
    output: Any = None,
    failure: Failure | None = None,
    cost_usd: float | None = None,
) -> Outcome:
    return Outcome(
        task_id=task.id,
        status=status,
        started_at=started_at,
        duration_ms=milliseconds_since(started_at),
        output=output,
        failure=failure,
        cost_usd=cost_usd,
    )
