"""The tasks of a plan, what they need of each other and what is wrong with that, as its executor says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pml_hookspecs import Failure, Workflow, replace
from pml_kit.offers import STATIC_CHECKS, required
from pml_kit.offers.plan_graphs import PlanGraph, PlanNode
from pml_kit.references import find, values_of

from .findings import Finding, Level, warning

if TYPE_CHECKING:
    from pml_hookspecs import Services, Session

WITHIN_S = 60.0
"""Longest that reading a plan may take; it takes milliseconds [s]."""
PLACES = ("task", "at")
"""What of a failure's details says where."""
UNREAD = "the executor of this plan does not say what its tasks need of each other; the order is not checked"


async def read(workflow: Workflow, session: Session, services: Services) -> tuple[PlanGraph, list[Finding]]:
    """The graph of a plan, and what its executor finds wrong with it, but for what was told of the request.

    Where the executor says nothing, a graph in which no task needs another, and a warning.
    """
    # A durable plan has the order that it has without.
    plan = replace(workflow, mistakes=(), durable=False)
    verdict = await required(services, STATIC_CHECKS).check(plan, session, within_s=WITHIN_S)
    problems = () if workflow.mistakes else verdict.problems
    findings = [_finding("error", one) for one in problems] + [_finding("warning", one) for one in verdict.doubts]
    if verdict.plan is not None:
        return verdict.plan, findings
    unread = [] if verdict.problems else [warning("plan.unread", "", verdict.unchecked or UNREAD)]
    return _without_order(workflow), findings + unread


def _finding(level: Level, failure: Failure) -> Finding:
    details = dict(failure.details)
    task, at = (str(details.pop(name, "")) for name in PLACES)
    for name in ("arguments", "inputs"):
        at = at.replace(f"compensate.{name}", "compensate")
    return Finding(level=level, code=failure.code, task=task, message=failure.message, at=at, more=details)


def _without_order(workflow: Workflow, path: str = "", above: PlanNode | None = None) -> PlanGraph:
    ids = [task.id for task in workflow.tasks]
    # Whatever a task refers to, it may have asked for.
    made = PlanGraph(workflow=workflow, path=path, above=above, layers=[ids], external_ids=frozenset(ids))
    nodes: dict[str, PlanNode] = {}
    for task in workflow.tasks:
        known, step = task.id in workflow.known, task.step
        node = PlanNode(path=f"{path}{task.id}", task=task, known=known, graph=made)
        node.values, node.each = find(values_of(task)).slots, find([step.for_each]).slots
        node.each = [replace(slot, path=slot.path[1:]) for slot in node.each]
        node.undo = () if step.compensate is None else find(values_of(step.compensate)).slots
        node.inner = _without_order(task, f"{node.path}/", node) if isinstance(task, Workflow) else None
        nodes.setdefault(task.id, node)
    made.nodes = nodes
    return made
