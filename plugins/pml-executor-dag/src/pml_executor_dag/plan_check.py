"""What can be told of a plan before it runs: its graph, and what is wrong with the order of its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pml_hookspecs import Failure, Task, Workflow, replace
from pml_kit.offers import Verdict
from pml_kit.offers.plan_graphs import PlanGraph, PlanNode

from .plan import MOST_NESTED, TOO_DEEP, Mistake, external_ids, layers, nodes_of


@dataclass(slots=True)
class _PlanReader:
    """What was read of one plan so far."""

    problems: list[Failure] = field(default_factory=list)
    doubts: list[Failure] = field(default_factory=list)

    def tell(self, path: str, mistake: Mistake) -> None:
        details: dict[str, Any] = {"task": f"{path}{mistake.task}"}
        at = "" if mistake.at == "id" else mistake.at
        details |= {"at": at} if at else {}
        details |= {"tasks": list(mistake.tasks)} if mistake.tasks else {}
        failure = Failure(mistake.code, mistake.what, details=details)
        (self.problems if mistake.certain else self.doubts).append(failure)

    def graph(self, workflow: Workflow, path: str, above: PlanNode | None, depth: int) -> PlanGraph:
        made = PlanGraph(workflow=workflow, path=path, above=above, external_ids=frozenset(external_ids(workflow)))
        if depth > MOST_NESTED:
            self.problems.append(Failure("plan.too_deep", TOO_DEEP, details={"task": path.rstrip("/")}))
            return made
        found, mistakes = nodes_of(workflow, "tasks")
        for mistake in mistakes:
            self.tell(path, mistake)
        made.layers, nodes = layers(found), dict[str, PlanNode]()
        for task in workflow.tasks:
            if task.id in nodes:
                continue
            own = found[task.id]
            node = nodes[task.id] = PlanNode(
                path=f"{path}{task.id}",
                task=task,
                depends_on=own.depends_on,
                values=own.slots,
                each=[replace(slot, path=slot.path[1:]) for slot in own.each],
                undo=own.undo,
                known=task.id in workflow.known,
                graph=made,
            )
            for inner in _workflows(task):
                graph = self.graph(inner, f"{node.path}/", node, depth + 1)
                node.inner = graph if inner is task else node.inner
        made.nodes = nodes
        return made


def _workflows(task: Task) -> Iterator[Workflow]:
    """Those that ``task`` is, and is undone by."""
    undo = task.step.compensate
    yield from (one for one in (task, undo) if isinstance(one, Workflow))


def verdict_of(workflow: Workflow) -> Verdict:
    """The graph, and everything that is wrong with it and with those within, each with its task and its place there."""
    reading = _PlanReader()
    graph = reading.graph(workflow, "", None, 0)
    return Verdict(checked="syntax", problems=reading.problems, doubts=reading.doubts, plan=graph)
