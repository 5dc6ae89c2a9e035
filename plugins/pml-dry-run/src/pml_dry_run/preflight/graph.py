"""The steps of a plan, workflows within included, what they need, and mistakes in that."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pml_hookspecs import CapabilityRun, CodeRun, Task, ToolCall, Workflow

from .conditions import names_in
from .findings import Finding, error, warning
from .message_text import did_you_mean, path_text
from .references import NOTHING, ValueScan, scan

DEEPEST = 16
"""Workflows within workflows."""
ITEM, INDEX = "item", "index"
EACH = frozenset({ITEM, INDEX})
MOST_SUGGESTIONS = 10


@dataclass(slots=True, kw_only=True)
class Node:
    """One step."""

    path: str
    """Ids joined by ``/``."""
    task: Task
    scope: Scope
    values: ValueScan = NOTHING
    """Arguments or inputs."""
    each: ValueScan = NOTHING
    """``for_each``."""
    undo: ValueScan = NOTHING
    """Arguments or inputs of what undoes it."""
    needs: tuple[str, ...] = ()
    """Ids in the same scope, each once."""
    inner: Scope | None = None
    """The tasks inside, where the step is a workflow."""
    known: bool = False
    """Its outcome is known; it does not run."""


@dataclass(slots=True, kw_only=True)
class Scope:
    """The tasks of one workflow."""

    workflow: Workflow
    path: str
    external_ids: frozenset[str]
    """What can be referred to though no task here has that id."""
    above: Node | None = None
    nodes: dict[str, Node] = field(default_factory=dict)

    def order(self) -> list[Node]:
        """Steps after what they need, otherwise in plan order. Those in a circle come last."""
        waiting = {id_: len(node.needs) for id_, node in self.nodes.items()}
        dependents: dict[str, list[str]] = {id_: [] for id_ in self.nodes}
        for id_, node in self.nodes.items():
            for need in node.needs:
                dependents[need].append(id_)
        ready = [id_ for id_, count in waiting.items() if not count]
        for id_ in ready:
            for dependent in dependents[id_]:
                waiting[dependent] -= 1
                if not waiting[dependent]:
                    ready.append(dependent)
        ended = set(ready)
        return [self.nodes[id_] for id_ in (*ready, *(id_ for id_ in self.nodes if id_ not in ended))]


class Graph:
    """A whole plan."""

    def __init__(self, workflow: Workflow) -> None:
        self.findings: list[Finding] = []
        self._suggestions = 0
        self.top = self._scope(workflow, "", None, 0)

    def nodes(self) -> Iterator[Node]:
        """Every step, those of workflows within after the workflow."""
        return _nodes(self.top)

    def _scope(self, workflow: Workflow, path: str, above: Node | None, depth: int) -> Scope:
        ids = {task.id for task in workflow.tasks}
        each = EACH if workflow.step.for_each is not None else frozenset()
        scope = Scope(workflow=workflow, path=path, external_ids=(frozenset(workflow.known) - ids) | each, above=above)
        if depth > DEEPEST:
            self.findings.append(error("plan.too_deep", path, f"more than {DEEPEST} workflows within workflows"))
            return scope
        for task in workflow.tasks:
            if task.id in scope.nodes:
                message = f"the id {task.id!r} is used twice; ids must differ"
                self.findings.append(error("plan.duplicate_id", f"{path}{task.id}", message))
                continue
            scope.nodes[task.id] = self._node(task, scope, depth)
        for node in scope.nodes.values():
            node.needs = tuple(self._needs(node, scope))
        for circle in _circles(scope.nodes):
            named = " → ".join((*circle, circle[0]))
            message = f"tasks that wait for each other never start: {named}"
            self.findings.append(error("plan.cycle", f"{path}{circle[0]}", message, tasks=circle))
        return scope

    def _node(self, task: Task, scope: Scope, depth: int) -> Node:
        undo = task.step.compensate
        node = Node(
            path=f"{scope.path}{task.id}",
            task=task,
            scope=scope,
            values=scan(values_of(task)),
            each=NOTHING if task.step.for_each is None else scan(task.step.for_each),
            undo=NOTHING if undo is None else scan(values_of(undo)),
            known=task.id in scope.workflow.known,
        )
        if isinstance(task, Workflow):
            node.inner = self._scope(task, f"{node.path}/", node, depth + 1)
        return node

    def _needs(self, node: Node, scope: Scope) -> dict[str, None]:
        needs: dict[str, None] = {}
        for at, id_ in self._mentioned(node):
            if id_ in scope.nodes and id_ != node.task.id:
                needs[id_] = None
            elif id_ == node.task.id:
                self._wrong(node, "plan.needs_itself", f"task {id_!r} cannot need its own result", at)
            elif id_ not in scope.external_ids:
                self._unknown(node, id_, at, scope)
        for at, id_ in _of(node.undo, "compensate"):
            allowed = (
                id_ in scope.nodes or id_ in scope.external_ids or (id_ in EACH and node.task.step.for_each is not None)
            )
            if not allowed:
                self._unknown(node, id_, at, scope)
        return needs

    def _mentioned(self, node: Node) -> Iterator[tuple[str, str]]:
        yield from (("depends_on", id_) for id_ in node.task.needs)
        each = node.task.step.for_each is not None
        name = "arguments" if isinstance(node.task, ToolCall) else "inputs"
        yield from ((at, id_) for at, id_ in _of(node.values, name) if not (each and id_ in EACH))
        yield from _of(node.each, "for_each")
        yield from (("when", id_) for id_ in names_in(node.task.step.when))
        for at, scanned in ((name, node.values), ("for_each", node.each), ("compensate", node.undo)):
            for path, text in scanned.unreadable:
                message = f"{text!r} is not a reference; write {{{{task.path}}}}, or \\{{{{ for plain text"
                self._wrong(node, "reference.unreadable", message, f"{at}{path_text(path)}")
            for one in scanned.foreign:
                own = at != "compensate" and one.task == node.task.id
                if (one.task in node.scope.nodes and not own) or (one.task in EACH and each):
                    message = f"{one.text} is no reference and would be sent as it stands; write {one.right}"
                    level = error if one.meant else warning
                    self.findings.append(level("reference.foreign", node.path, message, f"{at}{path_text(one.at)}"))

    def _unknown(self, node: Node, id_: str, at: str, scope: Scope) -> None:
        if id_ in EACH:
            self._wrong(node, "reference.no_item", f"{id_!r} means something only in a task with for_each", at)
            return
        self._suggestions += 1
        hint = "" if self._suggestions > MOST_SUGGESTIONS else did_you_mean(id_, [i for i in scope.nodes if i != id_])
        self._wrong(node, "reference.no_task", f"no task here has the id {id_!r}{hint}", at)

    def _wrong(self, node: Node, code: str, message: str, at: str) -> None:
        self.findings.append(error(code, node.path, message, at))


def _of(scanned: ValueScan, name: str) -> Iterator[tuple[str, str]]:
    """``(place, id)`` of every reference."""
    for slot in scanned.slots:
        yield from ((f"{name}{path_text(slot.path)}", reference.task) for reference in slot.references)


def values_of(task: Task) -> Mapping[str, Any]:
    """What may hold references; empty for a workflow, whose tasks see only one another's results."""
    if isinstance(task, ToolCall):
        return task.arguments
    return task.inputs if isinstance(task, (CodeRun, CapabilityRun)) else {}


def _nodes(scope: Scope) -> Iterator[Node]:
    for node in scope.nodes.values():
        yield node
        if node.inner is not None:
            yield from _nodes(node.inner)


def _circles(nodes: Mapping[str, Node]) -> list[Sequence[str]]:
    """Circles that share no task; at least one if there is any."""
    found: list[Sequence[str]] = []
    done: set[str] = set()
    for start in nodes:
        stack: list[tuple[str, int]] = [] if start in done else [(start, 0)]
        trail = [start] if stack else []
        while stack:
            id_, at = stack.pop()
            needs = nodes[id_].needs
            if at >= len(needs):
                done.add(id_)
                trail.pop()
                continue
            stack.append((id_, at + 1))
            need = needs[at]
            if need in trail:
                if _apart(circle := trail[trail.index(need) :], found):
                    found.append(circle)
            elif need not in done:
                stack.append((need, 0))
                trail.append(need)
    return found


def _apart(circle: Sequence[str], others: Collection[Sequence[str]]) -> bool:
    return not any(set(circle) & set(other) for other in others)
