"""What a workflow says about order, checked: every mistake is found before anything runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CodeRun, PluginTask, Task, ToolCall, Workflow
from pml_hookspecs.tasks import ONCE
from pml_kit.offers.plan_graphs import EACH
from pml_kit.references import Slot, find, path_text, values_of

if TYPE_CHECKING:
    from pml_kit.expressions import Expression
    from pml_kit.references import ForeignReference, Reference

MOST_NESTED = 16
"""Workflows within workflows."""
TOO_DEEP = f"more than {MOST_NESTED} workflows within workflows"
MOST_ROUNDS = 5
"""Searches for circles, each among what the circles found before leave over."""
MOST_SUGGESTIONS = 10
"""Comparing every wrong id with up to a thousand right ones would hold up the gateway."""
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
    depends_on: Sequence[tuple[str, str]] = ()
    """``(where, id)`` of what it says it needs."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Arguments or inputs, which may hold references."""
    values_where: str = ""
    when: str = ""
    for_each: Any = None
    undo: Mapping[str, Any] = field(default_factory=dict)
    """Arguments or inputs of what undoes it; they may refer to its own result."""
    undo_where: str = ""


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something that is wrong with a plan, or may be."""

    code: str
    task: str
    """Id of the task."""
    where: str
    """The place in the plan, such as ``tasks[2].arguments.path``."""
    at: str
    """The place in the task, such as ``arguments.path``; ``""`` for all of it."""
    what: str
    certain: bool = True
    tasks: Sequence[str] = ()
    """Of tasks that wait for each other, all."""

    def __str__(self) -> str:
        """As a line for whoever wrote the plan."""
        return f"{self.where}: {self.what}"


@dataclass(slots=True)
class Node:
    """One task in the graph of the plan: what it needs, and where its references stand."""

    depends_on: tuple[str, ...]
    """Ids it names or refers to, each once."""
    slots: tuple[Slot, ...] = ()
    when: Expression | None = None
    each: tuple[Slot, ...] = ()
    """Of ``{"for_each": …}``."""
    undo: tuple[Slot, ...] = ()

    def references(self) -> Iterator[Reference]:
        """All of them, those of its undo last."""
        return (reference for slot in (*self.slots, *self.each, *self.undo) for reference in slot.references)


class _PlanChecker:
    """Checks the tasks of one workflow and collects what is wrong."""

    def __init__(self, specs: Sequence[TaskSpec], external_ids: Collection[str]) -> None:
        self._specs, self._external_ids, self._suggestions = specs, external_ids, 0
        self.nodes: dict[str, Node] = {}
        self.mistakes: list[Mistake] = []
        self._ids: dict[str, str] = {}
        for spec in specs:
            self._check_id(spec)

    def _wrong(self, spec: TaskSpec, code: str, where: str, what: str, *, certain: bool = True) -> None:
        at = where.removeprefix(spec.where).lstrip(".")
        self.mistakes.append(Mistake(code, spec.id, where, at, what, certain))

    def _check_id(self, spec: TaskSpec) -> None:
        where = f"{spec.where}.id"
        if MARKS.search(spec.id):
            self._wrong(spec, "plan.id", where, f"{spec.id[:80]!r} must not have any of / # [ ~")
        if spec.id in self._external_ids:
            taken = "for_each is above it" if spec.id in EACH else "a task with that id ended before"
            self._wrong(spec, "plan.duplicate_id", where, f"{spec.id!r} is taken, because {taken}")
        if spec.id in self._ids:
            what = f"{spec.id!r} is already the id of {self._ids[spec.id]}; ids must differ"
            self._wrong(spec, "plan.duplicate_id", where, what)
        self._ids.setdefault(spec.id, spec.where)

    def run(self) -> None:
        """Fill :attr:`nodes` and :attr:`mistakes`."""
        for spec in self._specs:
            self.nodes.setdefault(spec.id, self._node(spec))
        for cycle in _cycles(self.nodes):
            what = f"tasks that wait for each other never start: {' → '.join((*cycle, cycle[0]))}"
            self.mistakes.append(Mistake("plan.cycle", cycle[0], self._ids[cycle[0]], "", what, tasks=cycle))

    def _node(self, spec: TaskSpec) -> Node:
        slots, mentioned = self._slots(spec, spec.values, spec.values_where)
        if not (mentioned or spec.depends_on or spec.when or spec.for_each is not None or spec.undo):
            return Node((), slots)
        each = {} if spec.for_each is None else {FOR_EACH: spec.for_each}
        if each:
            mentioned = [(where, id_) for where, id_ in mentioned if id_ not in EACH]
        each_slots, of_each = self._slots(spec, each, spec.where)
        when, of_when = self._condition(spec)
        mentioned = [*spec.depends_on, *mentioned, *of_each, *of_when]
        depends_on = dict.fromkeys(id_ for where, id_ in mentioned if self._known(spec, where, id_))
        undo, of_undo = self._slots(spec, spec.undo, spec.undo_where)
        for where, id_ in of_undo:
            if id_ != spec.id and not (each and id_ in EACH):
                self._known(spec, where, id_)
        return Node(tuple(id_ for id_ in depends_on if id_ in self._ids), slots, when, each_slots, undo)

    def _slots(
        self, spec: TaskSpec, values: Mapping[str, Any], at: str
    ) -> tuple[tuple[Slot, ...], list[tuple[str, str]]]:
        """The slots in ``values``, and ``(where, id)`` of the tasks that they refer to."""
        if not values:
            return (), []
        found = find(values)
        for path, text in found.unreadable:
            what = f"{text!r} is not a reference; write {{{{task_id.path}}}} for a result, or \\{{{{ for plain text"
            self._wrong(spec, "reference.unreadable", f"{at}{path_text(path)}", what)
        for one in found.foreign:
            self._foreign(spec, one, f"{at}{path_text(one.path)}")
        mentioned = [
            (f"{at}{path_text(slot.path)}", reference.task)
            for slot in found.slots
            for reference in slot.references
            if not reference.stored
        ]
        return tuple(found.slots), mentioned

    def _foreign(self, spec: TaskSpec, one: ForeignReference, where: str) -> None:
        """Of what no task has the name of, it is a text of something else."""
        if one.task not in self._ids and not (one.task in EACH and spec.for_each is not None):
            return
        if one.meant:
            self._wrong(spec, "reference.foreign", where, f"{one.text!r} is not a reference; write {one.right}")
            return
        if one.task == spec.id and not (spec.undo_where and where.startswith(spec.undo_where)):
            return
        what = f"{one.text} is no reference and is sent as it stands; for the result, write {one.right}"
        self._wrong(spec, "reference.foreign", where, what, certain=False)

    def _condition(self, spec: TaskSpec) -> tuple[Expression | None, list[tuple[str, str]]]:
        if not spec.when:
            return None, []
        # Only plans with conditions pay for the library.
        from pml_kit.expressions import Expression, ExpressionError

        where = f"{spec.where}.when"
        try:
            condition = Expression(spec.when)
        except ExpressionError as exc:
            self._wrong(spec, "plan.condition", where, f"{exc}; {CONDITIONS}")
            return None, []
        return condition, [(where, name) for name in condition.names]

    def _known(self, spec: TaskSpec, where: str, id_: str) -> bool:
        if id_ == spec.id:
            self._wrong(spec, "plan.needs_itself", where, f"task {id_!r} cannot need its own result")
        elif id_ in self._ids or id_ in self._external_ids:
            return True
        elif id_ in EACH:
            what = f"{id_!r} means something only in a task with for_each"
            self._wrong(spec, "reference.no_item", where, what)
        else:
            how = f"; {CONDITIONS}" if where == f"{spec.where}.when" else ""
            what = f"no task here has the id {id_!r}{self._suggestion(id_)}{how}"
            self._wrong(spec, "reference.no_task", where, what)
        return False

    def _suggestion(self, id_: str) -> str:
        self._suggestions += 1
        return "" if self._suggestions > MOST_SUGGESTIONS else did_you_mean(id_, self._ids)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?``, or ``""`` when nothing is near."""
    from difflib import get_close_matches

    near = get_close_matches(word[:64], list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check(specs: Sequence[TaskSpec], external_ids: Collection[str] = ()) -> tuple[dict[str, Node], list[Mistake]]:
    """The graph, in plan order, and everything that is wrong with it, or may be.

    The graph is only whole when nothing is wrong. Results of ``external_ids`` can be referred to, though no task here
    has that id.
    """
    checker = _PlanChecker(specs, external_ids)
    checker.run()
    return checker.nodes, checker.mistakes


def lines(mistakes: Iterable[Mistake]) -> list[str]:
    """What is certainly wrong, as ``where: what`` lines."""
    return [str(one) for one in mistakes if one.certain]


def graph_of(workflow: Workflow) -> tuple[dict[str, Node], list[str]]:
    """The graph of a workflow whoever made it, and all that is wrong with it and with workflows inside it."""
    nodes, mistakes = nodes_of(workflow, "tasks")
    told = lines(mistakes)
    inner = list(_inner(workflow.tasks, "tasks", 1))
    while inner:
        where, nested, depth = inner.pop(0)
        if depth > MOST_NESTED:
            told.append(f"{where}: {TOO_DEEP}")
            continue
        told += lines(nodes_of(nested, where)[1])
        inner += _inner(nested.tasks, where, depth + 1)
    return nodes, told


def nodes_of(workflow: Workflow, where: str) -> tuple[dict[str, Node], list[Mistake]]:
    """As :func:`check`, for one workflow whose tasks stand at ``where``."""
    return check(list(_specs(workflow.tasks, where)), external_ids(workflow))


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
        yield sketch_of(task, here, [(f"{here}.depends_on[{j}]", id_) for j, id_ in enumerate(task.depends_on)])


def sketch_of(task: Task, where: str, depends_on: Sequence[tuple[str, str]]) -> TaskSpec:
    """What ``task``, which stands at ``where``, says; ``depends_on`` with the place of each."""
    if task.step is ONCE:
        values_where = f"{where}.{_values_name(task)}"
        values = values_of(task)
        return TaskSpec(id=task.id, where=where, depends_on=depends_on, values=values, values_where=values_where)
    undo = task.step.compensate
    return TaskSpec(
        id=task.id,
        where=where,
        depends_on=depends_on,
        values=values_of(task),
        values_where=f"{where}.{_values_name(task)}",
        when=task.step.when,
        for_each=task.step.for_each,
        undo={} if undo is None else values_of(undo),
        undo_where="" if undo is None else f"{where}.compensate.{_values_name(undo)}",
    )


def _values_name(task: Task) -> str:
    return "arguments" if isinstance(task, ToolCall) else "inputs"


def type_of(task: Task) -> str:
    """How plans and reports call the kind of ``task``."""
    if isinstance(task, ToolCall):
        return "tool"
    if isinstance(task, Workflow):
        return "workflow"
    if isinstance(task, PluginTask):
        return task.type
    return "code_execution" if isinstance(task, CodeRun) else "capability"


def layers(nodes: Mapping[str, Node]) -> list[list[str]]:
    """Ids by how many steps they wait at least, each layer in plan order. Tasks in a circle are left out."""
    sorted_layers: list[list[str]] = []
    rank = {id_: i for i, id_ in enumerate(nodes)}
    waiting = {id_: len(node.depends_on) for id_, node in nodes.items()}
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
        for need in node.depends_on:
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
            id_: Node(tuple(need for need in node.depends_on if need not in gone))
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
            here = next(need for need in nodes[here].depends_on if need in stuck)
        if here is not None and here in trail:
            yield list(trail)[trail[here] :]
        done.update(trail)
