"""What a workflow says about order, checked: every mistake is found before anything runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CapabilityRun, CodeRun, Task, ToolCall, Workflow
from pml_hookspecs.tasks import ONCE

from .references import Slot, find, meant, path_text

if TYPE_CHECKING:
    from .conditions import Condition

MOST_NESTED = 16
"""Workflows within workflows."""
MOST_ROUNDS = 5
"""Searches for circles, each among what the circles found before leave over."""
MOST_SUGGESTIONS = 10
"""Comparing every wrong id with up to a thousand right ones would hold up the gateway."""
ITEM, INDEX = "item", "index"
"""What references call the item of ``for_each`` and its number."""
EACH = frozenset({ITEM, INDEX})
FOR_EACH = "for_each"
CONDITIONS = "write ids without braces, texts in '…' and numbers in `…`, such as a.total > `0` && a.state == 'open'"
"""What works in a condition (JMESPath), and is mostly written otherwise."""
MARKS = re.compile(r"[/#\[~]")
"""Not in ids: paths of children are made with them, such as ``flow/a[0]#2`` and ``flow/a~undo``."""


# Not frozen, nor are nodes: that would make them three times as slow to make, and plans have up to a thousand tasks.
@dataclass(slots=True, kw_only=True)
class TaskSpec:
    """What one task says of other tasks: its needs, references, condition and undo."""

    id: str
    where: str
    """The task's own place, such as ``workflow.tasks[2]``."""
    needs: Sequence[tuple[str, str]] = ()
    """``(where, id)`` of what it says it needs."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Arguments or inputs, which may hold references."""
    values_where: str = ""
    when: str = ""
    for_each: Any = None
    undo: Mapping[str, Any] = field(default_factory=dict)
    """Arguments or inputs of what undoes it; they may refer to its own result."""
    undo_where: str = ""


@dataclass(slots=True)
class Node:
    """One task in the graph of the plan: what it needs, and where its references stand."""

    needs: tuple[str, ...]
    """Ids it names or refers to, each once."""
    slots: tuple[Slot, ...] = ()
    when: Condition | None = None
    each: tuple[Slot, ...] = ()
    """Of ``{"for_each": …}``."""
    undo: tuple[Slot, ...] = ()


class _PlanChecker:
    """Checks the tasks of one workflow and collects what is wrong."""

    def __init__(self, specs: Sequence[TaskSpec], external_ids: Collection[str]) -> None:
        self._specs, self._external_ids, self._suggestions = specs, external_ids, 0
        self.nodes: dict[str, Node] = {}
        self.mistakes: list[str] = []
        self._ids: dict[str, str] = {}
        for spec in specs:
            self._check_id(spec)

    def _check_id(self, spec: TaskSpec) -> None:
        if MARKS.search(spec.id):
            self.mistakes.append(f"{spec.where}.id: {spec.id[:80]!r} must not have any of / # [ ~")
        if spec.id in self._external_ids:
            taken = "for_each is above it" if spec.id in EACH else "a task with that id ended before"
            self.mistakes.append(f"{spec.where}.id: {spec.id!r} is taken, because {taken}")
        if spec.id in self._ids:
            self.mistakes.append(
                f"{spec.where}.id: {spec.id!r} is already the id of {self._ids[spec.id]}; ids must differ"
            )
        self._ids.setdefault(spec.id, spec.where)

    def run(self) -> None:
        """Fill :attr:`nodes` and :attr:`mistakes`."""
        for spec in self._specs:
            self.nodes.setdefault(spec.id, self._node(spec))
        for cycle in _cycles(self.nodes):
            circle = " → ".join((*cycle, cycle[0]))
            self.mistakes.append(f"{self._ids[cycle[0]]}: tasks that wait for each other never start: {circle}")

    def _node(self, spec: TaskSpec) -> Node:
        slots, mentioned = self._slots(spec.values, spec.values_where)
        if not (mentioned or spec.needs or spec.when or spec.for_each is not None or spec.undo):
            return Node((), slots)
        each = {} if spec.for_each is None else {FOR_EACH: spec.for_each}
        if each:
            mentioned = [(where, id_) for where, id_ in mentioned if id_ not in EACH]
        each_slots, of_each = self._slots(each, spec.where)
        when, of_when = self._condition(spec)
        mentioned = [*spec.needs, *mentioned, *of_each, *of_when]
        needs = dict.fromkeys(id_ for where, id_ in mentioned if self._known(spec, where, id_))
        undo, of_undo = self._slots(spec.undo, spec.undo_where)
        for where, id_ in of_undo:
            if id_ != spec.id and not (each and id_ in EACH):
                self._known(spec, where, id_)
        return Node(tuple(id_ for id_ in needs if id_ in self._ids), slots, when, each_slots, undo)

    def _slots(self, values: Mapping[str, Any], at: str) -> tuple[tuple[Slot, ...], list[tuple[str, str]]]:
        """The slots in ``values``, and ``(where, id)`` of what they refer to."""
        if not values:
            return (), []
        slots, unreadable = find(values)
        for path, text in unreadable:
            other = meant(text)
            if other is not None and other.task not in self._ids:
                continue  # a text of something else
            instead = "{{task_id.path}} for a result, or \\{{ for plain text" if other is None else other.text
            self.mistakes.append(f"{at}{path_text(path)}: {text!r} is not a reference; write {instead}")
        mentioned = [(f"{at}{path_text(slot.path)}", reference.task) for slot in slots for reference in slot.references]
        return tuple(slots), mentioned

    def _condition(self, spec: TaskSpec) -> tuple[Condition | None, list[tuple[str, str]]]:
        if not spec.when:
            return None, []
        # Only plans with conditions pay for the library.
        from .conditions import Condition, ConditionError

        where = f"{spec.where}.when"
        try:
            condition = Condition(spec.when)
        except ConditionError as exc:
            self.mistakes.append(f"{where}: {exc}; {CONDITIONS}")
            return None, []
        return condition, [(where, name) for name in condition.names]

    def _known(self, spec: TaskSpec, where: str, id_: str) -> bool:
        if id_ == spec.id:
            self.mistakes.append(f"{where}: task {id_!r} cannot need its own result")
        elif id_ in self._ids or id_ in self._external_ids:
            return True
        elif id_ in EACH:
            self.mistakes.append(f"{where}: {id_!r} means something only in a task with for_each")
        else:
            how = f"; {CONDITIONS}" if where == f"{spec.where}.when" else ""
            self.mistakes.append(f"{where}: no task here has the id {id_!r}{self._suggestion(id_)}{how}")
        return False

    def _suggestion(self, id_: str) -> str:
        self._suggestions += 1
        return "" if self._suggestions > MOST_SUGGESTIONS else did_you_mean(id_, self._ids)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?``, or ``""`` when nothing is near."""
    from difflib import get_close_matches

    near = get_close_matches(word[:64], list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check(specs: Sequence[TaskSpec], external_ids: Collection[str] = ()) -> tuple[dict[str, Node], list[str]]:
    """The graph, in plan order, and everything that is wrong with it, as ``where: what`` lines.

    The graph is only whole when nothing is wrong. Results of ``external_ids`` can be referred to, though no task here
    has that id.
    """
    checker = _PlanChecker(specs, external_ids)
    checker.run()
    return checker.nodes, checker.mistakes


def graph_of(workflow: Workflow) -> tuple[dict[str, Node], list[str]]:
    """As :func:`check`, for a workflow whoever made it; the mistakes of workflows inside it are among them."""
    nodes, mistakes = check(list(_specs(workflow.tasks, "tasks")), external_ids(workflow))
    inner = list(_inner(workflow.tasks, "tasks", 1))
    while inner:
        where, nested, depth = inner.pop(0)
        if depth > MOST_NESTED:
            mistakes.append(f"{where}: more than {MOST_NESTED} workflows within workflows")
            continue
        mistakes += check(list(_specs(nested.tasks, where)), external_ids(nested))[1]
        inner += _inner(nested.tasks, where, depth + 1)
    return nodes, mistakes


def external_ids(workflow: Workflow) -> set[str]:
    """What tasks of ``workflow`` can refer to though no task in it has that id."""
    known = set(workflow.known).difference(task.id for task in workflow.tasks)
    return known if workflow.step.for_each is None else known | EACH


def _inner(tasks: Sequence[Task], where: str, depth: int) -> Iterator[tuple[str, Workflow, int]]:
    for i, task in enumerate(tasks):
        undo = task.step.compensate
        if isinstance(task, Workflow):
            yield f"{where}[{i}].tasks", task, depth
        if isinstance(undo, Workflow):
            yield f"{where}[{i}].compensate.tasks", undo, depth


def _specs(tasks: Sequence[Task], where: str) -> Iterator[TaskSpec]:
    for i, task in enumerate(tasks):
        here = f"{where}[{i}]"
        yield sketch_of(task, here, [(f"{here}.needs[{j}]", id_) for j, id_ in enumerate(task.needs)])


def sketch_of(task: Task, where: str, needs: Sequence[tuple[str, str]]) -> TaskSpec:
    """What ``task``, which stands at ``where``, says; ``needs`` with the place of each."""
    if task.step is ONCE:
        values_where = f"{where}.{_values_name(task)}"
        return TaskSpec(id=task.id, where=where, needs=needs, values=values_of(task), values_where=values_where)
    undo = task.step.compensate
    return TaskSpec(
        id=task.id,
        where=where,
        needs=needs,
        values=values_of(task),
        values_where=f"{where}.{_values_name(task)}",
        when=task.step.when,
        for_each=task.step.for_each,
        undo={} if undo is None else values_of(undo),
        undo_where="" if undo is None else f"{where}.compensate.{_values_name(undo)}",
    )


def _values_name(task: Task) -> str:
    return "arguments" if isinstance(task, ToolCall) else "inputs"


def values_of(task: Task) -> Mapping[str, Any]:
    """What of ``task`` may hold references; empty for a workflow, whose tasks see only one another's results."""
    if isinstance(task, ToolCall):
        return task.arguments
    return task.inputs if isinstance(task, (CodeRun, CapabilityRun)) else {}


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
    """The tasks that need each task, in plan order."""
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
            id_: Node(tuple(need for need in node.needs if need not in gone))
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
