"""What a workflow says about order, checked: every mistake is found before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pml_hookspecs import CodeRun, Task, ToolCall, Workflow

from .references import Slot, find, path_text

MOST_NESTED = 16
"""Workflows within workflows."""
MOST_ROUNDS = 5
"""Searches for circles, each among what the circles found before leave over."""
MOST_SUGGESTIONS = 10
"""Comparing every wrong id with up to a thousand right ones would hold up the gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """What one task says about other tasks."""

    id: str
    where: str
    """The task's own place, such as ``workflow.tasks[2]``."""
    needs: Sequence[tuple[str, str]] = ()
    """``(where, id)`` of what it says it needs."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Arguments or inputs, which may hold references."""
    values_where: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """How one task hangs in the graph."""

    needs: tuple[str, ...]
    """Ids it names or refers to, each once."""
    slots: tuple[Slot, ...]


class _Finder:
    """Checks the tasks of one workflow and collects what is wrong."""

    def __init__(self, sketches: Sequence[Sketch]) -> None:
        self._sketches, self._suggestions = sketches, 0
        self.nodes: dict[str, Node] = {}
        self.mistakes: list[str] = []
        self._ids: dict[str, str] = {}
        for sketch in sketches:
            if sketch.id in self._ids:
                self.mistakes.append(
                    f"{sketch.where}.id: {sketch.id!r} is already the id of {self._ids[sketch.id]}; ids must differ"
                )
            self._ids.setdefault(sketch.id, sketch.where)

    def run(self) -> None:
        """Fill :attr:`nodes` and :attr:`mistakes`."""
        for sketch in self._sketches:
            slots, unreadable = find(sketch.values)
            for path, text in unreadable:
                self.mistakes.append(
                    f"{sketch.values_where}{path_text(path)}: {text!r} is not a reference; write "
                    "{{task_id.path}} for a result, or \\{{ for plain text"
                )
            mentioned = list(sketch.needs)
            for slot in slots:
                where = f"{sketch.values_where}{path_text(slot.path)}"
                mentioned += [(where, reference.task) for reference in slot.references]
            needs = dict.fromkeys(id_ for where, id_ in mentioned if self._known(sketch, where, id_))
            self.nodes.setdefault(sketch.id, Node(tuple(needs), tuple(slots)))
        for cycle in _cycles(self.nodes):
            circle = " → ".join((*cycle, cycle[0]))
            self.mistakes.append(f"{self._ids[cycle[0]]}: tasks that wait for each other never start: {circle}")

    def _known(self, sketch: Sketch, where: str, id_: str) -> bool:
        if id_ == sketch.id:
            self.mistakes.append(f"{where}: task {id_!r} cannot need its own result")
        elif id_ not in self._ids:
            self.mistakes.append(f"{where}: no task here has the id {id_!r}{self._suggestion(id_)}")
        else:
            return True
        return False

    def _suggestion(self, id_: str) -> str:
        self._suggestions += 1
        return "" if self._suggestions > MOST_SUGGESTIONS else did_you_mean(id_, self._ids)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?``, or ``""`` when nothing is near."""
    from difflib import get_close_matches

    near = get_close_matches(word[:64], list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check(sketches: Sequence[Sketch]) -> tuple[dict[str, Node], list[str]]:
    """The graph, in plan order, and everything that is wrong with it, as ``where: what`` lines.

    The graph is only whole when nothing is wrong.
    """
    finder = _Finder(sketches)
    finder.run()
    return finder.nodes, finder.mistakes


def graph_of(workflow: Workflow) -> tuple[dict[str, Node], list[str]]:
    """As :func:`check`, for a workflow whoever made it; the mistakes of workflows inside it are among them."""
    nodes, mistakes = check(list(_sketches(workflow.tasks, "tasks")))
    inner = [(f"tasks[{i}].tasks", task, 1) for i, task in enumerate(workflow.tasks) if isinstance(task, Workflow)]
    while inner:
        where, nested, depth = inner.pop(0)
        if depth > MOST_NESTED:
            mistakes.append(f"{where}: more than {MOST_NESTED} workflows within workflows")
            continue
        mistakes += check(list(_sketches(nested.tasks, where)))[1]
        below = [(f"{where}[{i}].tasks", task) for i, task in enumerate(nested.tasks) if isinstance(task, Workflow)]
        inner += [(place, task, depth + 1) for place, task in below]
    return nodes, mistakes


def _sketches(tasks: Sequence[Task], where: str) -> Iterator[Sketch]:
    for i, task in enumerate(tasks):
        here = f"{where}[{i}]"
        yield Sketch(
            id=task.id,
            where=here,
            needs=[(f"{here}.needs[{j}]", id_) for j, id_ in enumerate(task.needs)],
            values=values_of(task),
            values_where=f"{here}.{'arguments' if isinstance(task, ToolCall) else 'inputs'}",
        )


def values_of(task: Task) -> Mapping[str, Any]:
    """What of ``task`` may hold references; empty for a workflow, whose tasks see only one another's results."""
    if isinstance(task, ToolCall):
        return task.arguments
    return {} if isinstance(task, Workflow) else task.inputs


def type_of(task: Task) -> str:
    """How plans and reports call the kind of ``task``."""
    if isinstance(task, ToolCall):
        return "tool"
    if isinstance(task, Workflow):
        return "workflow"
    return "code_execution" if isinstance(task, CodeRun) else "capability"


def layers(nodes: Mapping[str, Node]) -> list[list[str]]:
    """Ids by how many steps they wait at least, each layer in plan order. Tasks in a circle are left out."""
    sorted_layers: list[list[str]] = []
    rank = {id_: i for i, id_ in enumerate(nodes)}
    waiting = {id_: len(node.needs) for id_, node in nodes.items()}
    dependents = dependents_of(nodes)
    layer = [id_ for id_, count in waiting.items() if not count]
    while layer:
        sorted_layers.append(layer)
        following = []
        for id_ in layer:
            for dependent in dependents[id_]:
                waiting[dependent] -= 1
                if not waiting[dependent]:
                    following.append(dependent)
        layer = sorted(following, key=rank.__getitem__)
    return sorted_layers


def dependents_of(nodes: Mapping[str, Node]) -> dict[str, list[str]]:
    """Who needs each task, in plan order."""
    dependents: dict[str, list[str]] = {id_: [] for id_ in nodes}
    for id_, node in nodes.items():
        for need in node.needs:
            dependents[need].append(id_)
    return dependents


def _cycles(nodes: Mapping[str, Node]) -> Iterator[list[str]]:
    """Circles that share no task. All of them in all but very knotted plans, at least one if there is any."""
    left = dict(nodes)
    for _ in range(MOST_ROUNDS):
        found = list(_some_cycles(left))
        yield from found
        gone = {id_ for cycle in found for id_ in cycle}
        if not gone:
            return
        left = {
            id_: Node(tuple(need for need in node.needs if need not in gone), ())
            for id_, node in left.items()
            if id_ not in gone
        }


def _some_cycles(nodes: Mapping[str, Node]) -> Iterator[list[str]]:
    stuck = set(nodes).difference(*layers(nodes))
    done: set[str] = set()
    for start in nodes:
        trail: dict[str, int] = {}
        here: str | None = start if start in stuck else None
        while here is not None and here not in done and here not in trail:
            trail[here] = len(trail)
            # Whatever is stuck needs something that is stuck, so following one such need ends in a circle.
            here = next(need for need in nodes[here].needs if need in stuck)
        if here is not None and here in trail:
            yield list(trail)[trail[here] :]
        done.update(trail)
