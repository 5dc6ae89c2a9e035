"""Decides what to do with an intent that comes without a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, Task, ToolCall, Workflow, encode, replace
from pml_kit.mcp.effects import only_reads
from pml_kit.mcp.tool_schemas import input_schema
from pml_kit.offers import SUGGESTER, Suggestion
from pml_kit.schema.members import required

from .arguments import SHAPE
from .pauses.agreement import is_agreed_on
from .plan import graph_of
from .plan_writer import written

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Run, Services, Session

    from .settings import Settings

MOST_SUGGESTIONS = 3
MOST_TOOLS, LONGEST_DESCRIPTION, LARGEST_SCHEMA = 8, 300, 4000
"""Tools that are named instead of a plan; the longest description [characters] and schema [bytes] of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDecision:
    """Either a workflow to run, or an answer, or neither and a failure that says what is missing."""

    workflow: Workflow | None = None
    about: Mapping[str, Any] | None = field(default=None)
    failure: Failure | None = None


async def plan(task: Workflow, run: Run, settings: Settings, services: Services | None) -> PlanDecision:
    """What is to be done about ``task``, which has an intent and no tasks.

    A plan that lacks required arguments is none, whatever its confidence; its tools are told. With a confidence below
    ``suggest_at`` an explicit plan is asked for, and the tools are told; from there the plan is suggested, and from
    ``execute_at`` it is run for real, unless the mode allows less. From ``suggest_at`` on it is rehearsed when a
    rehearsal is wanted, and run when it is agreed on.
    """
    if services is None or settings.confidence_mode == "explicit_required":
        none = "this gateway makes no plans (confidence_mode = explicit_required)"
        return _explicit(none if settings.confidence_mode == "explicit_required" else "there is nobody to make one")
    found = await suggested(services, task.intent, run)
    good = [suggestion for suggestion in found if suggestion.workflow.tasks and not graph_of(suggestion.workflow)[1]]
    if not good:
        return _explicit("no installed plugin that makes plans has one for this intent (pml-suggester makes plans)")
    ready = [suggestion for suggestion in good if not lacking(suggestion.workflow.tasks, services.catalog)]
    tools = tools_of(good[0], services.catalog, run.session)
    if not ready:
        return _explicit("nobody knows all arguments that it needs", tools)
    best, good = ready[0], ready
    if best.confidence < settings.suggest_at:
        reason = f"the best one has a confidence of {best.confidence:.2f}, and {settings.suggest_at:g} is needed"
        return _explicit(reason, tools)
    speculative = settings.confidence_mode == "speculative_execution" and best.confidence >= settings.execute_at
    # A rehearsal does no harm, and a plan that has to be as it was rehearsed is one that somebody has looked at.
    if not (speculative or run.dry_run or is_agreed_on(task)):
        return PlanDecision(about=_suggested(task, good))
    planned = replace(task, tasks=with_approvals(best.workflow.tasks, services.catalog))
    about: dict[str, Any] = {"confidence": best.confidence, "why": best.why}
    if run.dry_run:
        about["arguments"] = written(replace(planned, dry_run=False))
    return PlanDecision(workflow=planned, about=about)


async def suggested(services: Services, intent: str, run: Run) -> Sequence[Suggestion]:
    """Plans from all who make plans, best first; one that fails is logged and left out."""
    found: list[Suggestion] = []
    for plugin, suggester in services.find_all(SUGGESTER):
        try:
            found += await suggester.suggest(intent, run, limit=MOST_SUGGESTIONS)
        except Exception:
            services.log.exception("planning failed", by=plugin)
    return sorted(found, key=lambda suggestion: -suggestion.confidence)[:MOST_SUGGESTIONS]


def _explicit(reason: str, tools: Sequence[Mapping[str, Any]] = ()) -> PlanDecision:
    """``tools`` are those that may serve, in order of use."""
    find = "take what fits of 'tools', or find others with search_tools" if tools else "find tools with search_tools"
    message = (
        f"There is no plan for this intent: {reason}. Say yourself what is to be done: {find}, "
        f'then call execute_workflow with "workflow": {SHAPE}.'
    )
    failure = Failure("plan.explicit_required", message)
    if not tools:
        return PlanDecision(failure=failure)
    error = {"code": failure.code, "message": message}
    return PlanDecision(about={"status": "explicit_required", "error": error, "tools": list(tools)}, failure=failure)


def _suggested(task: Workflow, suggestions: Sequence[Suggestion]) -> dict[str, Any]:
    best, *others = [
        {
            "confidence": suggestion.confidence,
            "why": suggestion.why,
            "arguments": written(replace(task, tasks=suggestion.workflow.tasks)),
        }
        for suggestion in suggestions
    ]
    told = {
        "status": "suggestion",
        "how": "Nothing ran. To run the plan, call execute_workflow with these arguments, changed as you see fit.",
        **best,
    }
    return told | ({"alternatives": others} if others else {})


def lacking(tasks: Sequence[Task], catalog: Catalog) -> bool:
    """Whether a call in ``tasks`` lacks an argument that its tool requires."""
    for task in tasks:
        if isinstance(task, Workflow) and lacking(task.tasks, catalog):
            return True
        entry = catalog.resolve(task.tool) if isinstance(task, ToolCall) else None
        needed = () if entry is None else required(input_schema(entry))
        if isinstance(task, ToolCall) and any(name not in task.arguments for name in needed):
            return True
    return False


def tools_of(suggestion: Suggestion, catalog: Catalog, session: Session) -> list[Mapping[str, Any]]:
    """The tools of a suggestion that ``session`` may have, in order of use, with their schemas and known arguments."""
    told: dict[str, Mapping[str, Any]] = {}
    for task in suggestion.workflow.tasks[:MOST_TOOLS]:
        entry = catalog.resolve(task.tool, session) if isinstance(task, ToolCall) else None
        if entry is None or not isinstance(task, ToolCall) or entry.id in told or not catalog.allows(entry, session):
            continue
        one: dict[str, Any] = {"tool": entry.id, "description": entry.description[:LONGEST_DESCRIPTION]}
        if task.arguments:
            one["arguments"] = dict(task.arguments)
        schema = input_schema(entry)
        if schema is not None and len(encode(schema)) <= LARGEST_SCHEMA:
            one["inputSchema"] = schema
        told[entry.id] = one
    return list(told.values())


def with_approvals(tasks: Sequence[Task], catalog: Catalog) -> tuple[Task, ...]:
    """``tasks``, of which those that do more than read want a human to look first, within workflows and undoing too."""
    return tuple(_with_approval(task, catalog) for task in tasks)


def _with_approval(task: Task, catalog: Catalog) -> Task:
    step = task.step
    if step.compensate is not None:
        step = replace(step, compensate=_with_approval(step.compensate, catalog))
    if isinstance(task, Workflow):
        return replace(task, tasks=with_approvals(task.tasks, catalog), step=step)
    # What destroys nothing may still do what nobody wanted.
    if not (isinstance(task, ToolCall) and only_reads(catalog.resolve(task.tool))):
        step = replace(step, approve=True)
    return replace(task, step=step)
