"""What comes of an intent without a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, Suggestion, Task, ToolCall, Workflow

from .agreement import is_agreed_on
from .arguments import SHAPE
from .plan import graph_of
from .writing import written

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Run, Services

    from .executor import Settings

MOST_SUGGESTIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Either a workflow to run, or an answer, or neither and a failure that says what is missing."""

    workflow: Workflow | None = None
    about: Mapping[str, Any] | None = field(default=None)
    failure: Failure | None = None


async def plan(task: Workflow, run: Run, settings: Settings, services: Services | None) -> Planned:
    """What is to be done about ``task``, which has an intent and no tasks (ADR-030, DRY-17).

    With a confidence below ``suggest_at`` an explicit plan is asked for, from there the plan is suggested, and from
    ``execute_at`` it is run for real, unless the mode allows less. From ``suggest_at`` on it is rehearsed when a
    rehearsal is wanted, and run when it is agreed on.
    """
    if settings.confidence_mode == "explicit_required":
        return _explicit("this gateway makes no plans (confidence_mode = explicit_required)")
    if services is None:
        return _explicit("there is nobody to make one")
    found = await services.suggest(task.intent, run, limit=MOST_SUGGESTIONS)
    good = [suggestion for suggestion in found if suggestion.workflow.tasks and not graph_of(suggestion.workflow)[1]]
    if not good:
        return _explicit("no installed plugin that makes plans has one for this intent (pml-suggester makes plans)")
    best = good[0]
    if best.confidence < settings.suggest_at:
        reason = f"the best one has a confidence of {best.confidence:.2f}, and {settings.suggest_at:g} is needed"
        return _explicit(reason)
    speculative = settings.confidence_mode == "speculative_execution" and best.confidence >= settings.execute_at
    # A rehearsal does no harm, and a plan that has to be as it was rehearsed is one that somebody has looked at.
    if not (speculative or run.dry_run or is_agreed_on(task)):
        return Planned(about=_suggested(task, good))
    planned = replace(task, tasks=with_approvals(best.workflow.tasks, services.catalog))
    about: dict[str, Any] = {"confidence": best.confidence, "why": best.why}
    if run.dry_run:
        about["arguments"] = written(replace(planned, dry_run=False))
    return Planned(workflow=planned, about=about)


def _explicit(reason: str) -> Planned:
    message = (
        f"There is no plan for this intent: {reason}. Say yourself what is to be done: find tools with search_tools, "
        f'then call execute_workflow with "workflow": {SHAPE}.'
    )
    return Planned(failure=Failure("plan.explicit_required", message))


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


def with_approvals(tasks: Sequence[Task], catalog: Catalog) -> tuple[Task, ...]:
    """``tasks``, of which those that do more than read want a human to look first, within workflows and undoing too."""
    return tuple(_with_approval(task, catalog) for task in tasks)


def _with_approval(task: Task, catalog: Catalog) -> Task:
    step = task.step
    if step.compensate is not None:
        step = replace(step, compensate=_with_approval(step.compensate, catalog))
    if isinstance(task, Workflow):
        return replace(task, tasks=with_approvals(task.tasks, catalog), step=step)
    if not (isinstance(task, ToolCall) and _only_reads(task, catalog)):
        step = replace(step, approve=True)
    return replace(task, step=step)


def _only_reads(task: ToolCall, catalog: Catalog) -> bool:
    """Whether the tool says that it only reads: what destroys nothing may still do what nobody wanted."""
    entry = catalog.resolve(task.tool)
    hints = None if entry is None else entry.definition.get("annotations")
    return isinstance(hints, Mapping) and hints.get("readOnlyHint") is True
