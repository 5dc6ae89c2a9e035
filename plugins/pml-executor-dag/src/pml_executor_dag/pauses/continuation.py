"""``continue_workflow`` and ``abort_workflow``: what becomes of a workflow that waits for somebody."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_executor_dag.arguments import read_tasks
from pml_executor_dag.fields import Fields, refusal
from pml_executor_dag.jobs import without_running
from pml_executor_dag.missing_tools import missing_tools
from pml_executor_dag.undo import is_undone
from pml_hookspecs import (
    Failure,
    InvalidArguments,
    Outcome,
    Session,
    Status,
    Task,
    ToolCall,
    ToolFailed,
    ToolId,
    Workflow,
    replace,
)

from .paused_workflows import WorkflowClaim, WorkflowNotFoundError, known_of, let_go, put_back, take

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Documents, Run

DURABLE = "resume_durable_run"
"""The tool with which an executor of durable workflows goes on with one that waits."""
DECISIONS = ("continue", "abort", "replan")
ABORTED = Failure("workflow.aborted", "Not run: the workflow was aborted.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a client wants done with a workflow that waits."""

    workflow_id: str
    what: str
    """One of :data:`DECISIONS`."""
    arguments: Mapping[str, Any]
    """With the new ``tasks`` when it is to be planned anew."""
    types: Collection[str] = ()
    """Of tasks that plugins run."""


def decision_from(arguments: Mapping[str, Any], types: Collection[str] = ()) -> Decision:
    """What ``arguments`` ask for; ``types`` are those of tasks that plugins run.

    Raises:
        InvalidArguments: The message lists every mistake.
    """
    fields = Fields()
    fields.names(arguments, ("workflow_id", "decision", "tasks"), "")
    needed = "give the workflow_id of a result with the status input_required or layer_complete"
    id_ = fields.text(arguments, "workflow_id", "", needed=needed)
    if "decision" not in arguments:
        fields.wrong("decision", "is missing; say 'continue', 'abort' or 'replan'")
    what = fields.choice(arguments, "decision", "", DECISIONS)
    if what == "replan" and "tasks" not in arguments:
        fields.wrong("tasks", "is missing; give the tasks that take the place of all that has not ended well")
    elif what != "replan" and "tasks" in arguments:
        fields.wrong("tasks", "means something only with the decision 'replan'")
    if fields.mistakes:
        raise InvalidArguments(refusal(fields.mistakes))
    return Decision(workflow_id=id_, what=what, arguments=arguments, types=types)


async def carry_out(decision: Decision, documents: Documents, run: Run, catalog: Catalog) -> Mapping[str, Any]:
    """Continue, abort or replan, through the chain that ran the workflow before.

    Returns:
        The report of the workflow that has ended well, or waits again.

    Raises:
        ToolFailed: The workflow has not ended well; the content is its report.
        InvalidArguments: There is no such workflow, or not of this principal, or the new tasks are wrong; it waits on
            then.
    """
    try:
        taken = await take(documents, decision.workflow_id, run.session)
    except WorkflowNotFoundError as exc:
        if catalog.resolve(DURABLE) is None:
            raise
        return await _durable(decision, run, str(exc))
    try:
        workflow = await _decided(decision, taken.workflow, documents, run.session)
        if decision.what == "replan" and (mistakes := missing_tools(_new(workflow), catalog, run.session)):
            raise InvalidArguments(refusal(mistakes))
    except InvalidArguments:
        await put_back(documents, taken)
        raise
    outcome = await run.dispatch(workflow)
    return await _told(outcome, documents, taken)


async def _told(outcome: Outcome, documents: Documents, taken: WorkflowClaim) -> Mapping[str, Any]:
    failure, output = outcome.failure, outcome.output
    if isinstance(output, Mapping):
        later = output.get("workflow_id")
        await let_go(documents, taken, later if isinstance(later, str) else "")
        if failure is None or outcome.status is Status.INPUT_REQUIRED:
            return output
        raise ToolFailed(failure.message, output)
    # Nothing of it ran: refused, or nobody runs workflows.
    await put_back(documents, taken)
    told: dict[str, Any] = {"status": "failed", "workflow_id": taken.id}
    if failure is None:
        return told
    raise ToolFailed(failure.message, {**told, "error": {"code": failure.code, "message": failure.message}})


async def _durable(decision: Decision, run: Run, unknown: str) -> Mapping[str, Any]:
    """What the executor of durable workflows makes of it, which may know the id."""
    tasks = {"tasks": decision.arguments["tasks"]} if decision.what == "replan" else {}
    arguments = {"run_id": decision.workflow_id, "decision": decision.what, **tasks}
    outcome = await run.dispatch(ToolCall(id="resume", tool=ToolId(DURABLE), arguments=arguments))
    failure, output = outcome.failure, outcome.output
    told = output.get("structuredContent") if isinstance(output, Mapping) else None
    if isinstance(told, Mapping):
        if failure is None:
            return told
        raise ToolFailed(failure.message, told)
    raise InvalidArguments(unknown if failure is None else f"{unknown}; {failure.message}")


def _new(workflow: Workflow) -> list[Task]:
    """Tasks of which nothing is known."""
    return [task for task in workflow.tasks if task.id not in workflow.known]


async def _decided(decision: Decision, workflow: Workflow, documents: Documents, session: Session) -> Workflow:
    if decision.what == "continue":
        return workflow
    if decision.what == "replan":
        if is_undone(workflow.known):
            raise InvalidArguments("decision: the workflow has failed, and what it did is being undone; say 'continue'")
        return _replanned(workflow, decision)
    return await _aborted(workflow, documents, session)


def _replanned(workflow: Workflow, decision: Decision) -> Workflow:
    """``workflow`` with what ended well, and new tasks in place of everything else."""
    kept = [task for task in workflow.tasks if _ended_well(workflow, task)]
    ids = {task.id for task in kept}
    tasks, mistakes = read_tasks(decision.arguments, ids, decision.types)
    if mistakes:
        raise InvalidArguments(refusal(mistakes))
    gone = {task.id for task in workflow.tasks} - ids
    known = {id_: outcome for id_, outcome in workflow.known.items() if id_.partition("[")[0] not in gone}
    return replace(workflow, tasks=(*kept, *tasks), known=known)


def _ended_well(workflow: Workflow, task: Task) -> bool:
    outcome = workflow.known.get(task.id)
    return outcome is not None and outcome.status.good


async def _aborted(workflow: Workflow, documents: Documents, session: Session) -> Workflow:
    """``workflow`` with everything that has not ended cancelled: run like that, it only undoes what it did."""
    tasks: list[Task] = []
    known = dict(workflow.known)
    for task in workflow.tasks:
        before = known.get(task.id)
        waits = before is not None and before.status is Status.INPUT_REQUIRED
        if waits and isinstance(task, Workflow) and task.step.for_each is None:
            tasks.append(await _part_aborted(task, known.pop(task.id), documents, session))
            continue
        tasks.append(task)
        if before is None or waits:
            known[task.id] = without_running(task, Status.CANCELLED, ABORTED)
    return replace(workflow, tasks=tuple(tasks), known=known, by_layer=False)


async def _part_aborted(task: Workflow, outcome: Outcome, documents: Documents, session: Session) -> Workflow:
    id_ = outcome.failure.details.get("workflow_id") if outcome.failure is not None else None
    known = {**task.known, **(await known_of(documents, id_, session) if isinstance(id_, str) else {})}
    return await _aborted(replace(task, known=known), documents, session)
