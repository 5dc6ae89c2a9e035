"""What of a request has come from untrusted servers so far: by plan, by code, by whatever runs other tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pml_hookspecs import GATEWAY_SERVER, CapabilityRun, CodeRun, Task, ToolCall, Workflow, replace, split_tool_id
from pml_hookspecs.tasks import ONCE
from pml_kit.offers.plan_graphs import EACH
from pml_kit.references import Path, Reference, Slot, find, values_of

from .caller_words import CallerWords

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Session
    from pml_kit.offers import Words


class Origin(NamedTuple):
    """Where a value comes from."""

    server: str
    source: str
    """For people: the tool and the task that it was the result of."""


Origins: TypeAlias = frozenset[Origin]
NONE: Origins = frozenset()
STORED = "a stored result"
UNDO = "~undo"
"""What follows a task's id in the id of what undoes it."""
_CHILD = re.compile(r"[\[#~]")


class Taint(NamedTuple):
    """What untrusted servers have to do with a task that is about to run."""

    values: tuple[tuple[Path, Origins], ...] = ()
    """Places in its arguments or inputs, and where what stands there comes from; the empty place is all of them."""
    control: Origins = NONE
    """What decided whether it runs, or how often."""

    @property
    def origins(self) -> Origins:
        """Of all its values."""
        return union(origins for _, origins in self.values)


@dataclass(slots=True)
class Scope:
    """One task that runs others, while it is under way."""

    task: Task
    levels: Mapping[str, Words]
    """Of each server."""
    words: CallerWords
    base: Origins = NONE
    """Of what it was given; of a plan that code made, what the code had read."""
    control: Origins = NONE
    each: Origins = NONE
    """Of the item that it is run for."""
    read: set[Origin] = field(default_factory=set)
    """Of all results inside so far."""
    results: dict[str, Origins] = field(default_factory=dict)
    """Of a plan: of the results of its tasks, by id."""
    slots: dict[str, Sequence[Slot]] = field(default_factory=dict)
    """Of a plan: where references stand in its tasks and in what undoes them, by id."""
    nodes: Mapping[str, Task] = field(init=False)
    """Of a plan: its tasks, by id."""
    plain: set[str] = field(default_factory=set)
    """Of a plan: tasks that nothing flows into, and whose results are known to be of their servers."""

    def __post_init__(self) -> None:
        """Find the tasks of a plan."""
        self.nodes = {one.id: one for one in self.task.tasks} if isinstance(self.task, Workflow) else {}

    def add(self, task: Task, origins: Origins) -> None:
        """Take up where the result of ``task`` comes from."""
        self.read |= origins
        if isinstance(self.task, Workflow):
            id_ = planned_id(task.id)
            self.results[id_] = self.results.get(id_, NONE) | origins

    def anything(self) -> Origins:
        """Of what nobody knows where it comes from."""
        return frozenset(Origin(name, STORED) for name, words in self.levels.items() if words != "trusted")


def union(many: Iterable[Iterable[Origin]]) -> Origins:
    """All of them."""
    return NONE.union(*many)


def planned_id(id_: str) -> str:
    """Id in the plan of what runs as ``a``, ``a[0]``, ``a#2`` or ``a~undo``."""
    return id_ if _CHILD.search(id_) is None else _CHILD.split(id_, maxsplit=1)[0]


class Tracer:
    """Says of each task inside another where its values come from."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def prepare(self, scope: Scope, session: Session) -> None:
        """Tell of a plan at once what is so whatever its tasks come to: of most of them nothing else is ever asked."""
        if scope.base or scope.control:
            return
        for node in scope.nodes.values():
            if node.step is not ONCE or not isinstance(node, ToolCall):
                continue
            slots = scope.slots[node.id] = find(node.arguments).slots
            entry = None if slots else self._catalog.resolve(node.tool, session)
            if entry is not None and not entry.own:
                scope.plain.add(node.id)
                if scope.levels.get(entry.server, "trusted") != "trusted":
                    scope.add(node, frozenset({_origin(scope, entry.server, entry.id, node)}))

    def taint(self, scope: Scope, task: Task, session: Session) -> Taint:
        """Of a task that ``scope`` is about to run."""
        if isinstance(scope.task, Workflow):
            return self._of_plan(scope, scope.task, task, session)
        if not isinstance(scope.task, CodeRun):
            return Taint(_all(scope.base), scope.control)
        seen = scope.base | scope.read
        chosen = seen if isinstance(task, ToolCall) and seen and not scope.words.mentions(task.tool) else NONE
        return Taint(_all(seen), scope.control | chosen)

    def result(self, scope: Scope, task: Task, taint: Taint, inner: Scope | None) -> Origins:
        """Of what comes of a task that ``scope`` ran; ``inner`` is its own scope, if it had one."""
        found = set(taint.origins)
        if isinstance(task, ToolCall):
            found |= self._of_tool(scope, task)
        elif isinstance(task, CodeRun):
            found.update(named_in(scope, task))
        if inner is not None:
            found |= inner.read
        return frozenset(found)

    def _of_tool(self, scope: Scope, task: ToolCall) -> Origins:
        server = split_tool_id(task.tool)[0]
        if server == GATEWAY_SERVER:  # it may give what is stored, or what others did
            return scope.anything()
        if scope.levels.get(server, "trusted") == "trusted":
            return NONE
        return frozenset({_origin(scope, server, task.tool, task)})

    def _of_plan(self, scope: Scope, plan: Workflow, task: Task, session: Session) -> Taint:
        id_ = planned_id(task.id)
        node = scope.nodes.get(id_)
        if node is None:  # planned from the intent meanwhile
            seen = scope.base | scope.read
            return Taint(_all(seen), scope.control)
        undoing = UNDO in task.id and node.step.compensate is not None
        asked: Task = node.step.compensate if undoing and node.step.compensate is not None else node
        values = [
            (slot.path, origins)
            for slot in _slots(scope, asked, undoing=undoing)
            if (origins := self._referred(scope, plan, node, slot.references, session))
        ]
        if not self._same(asked, task, session):  # a tool stood for it, and its arguments stand elsewhere
            values = [((), origins) for _, origins in values]
        if isinstance(task, (CodeRun, CapabilityRun)):
            values += _all(union(self._result_of(scope, plan, need, session) for need in node.depends_on))
        control = scope.control | self._conditions(scope, plan, node, session)
        return Taint((*values, *_all(scope.base)), control)

    def _same(self, asked: Task, task: Task, session: Session) -> bool:
        if not isinstance(asked, ToolCall) or not isinstance(task, ToolCall):
            return type(asked) is type(task)
        if asked.tool == task.tool:
            return True
        entry = self._catalog.resolve(asked.tool, session)
        return entry is not None and entry.id == task.tool

    def each_of(self, scope: Scope, task: Task, session: Session) -> Origins:
        """Of the items that ``task`` of a plan is run for."""
        plan = scope.task
        if not isinstance(plan, Workflow):
            return NONE
        node = scope.nodes.get(planned_id(task.id))
        if node is None or node.step.for_each is None:
            return scope.each
        return self._items(scope, plan, node, session)

    def _items(self, scope: Scope, plan: Workflow, node: Task, session: Session) -> Origins:
        references = [one for slot in find({"": node.step.for_each}).slots for one in slot.references]
        return union(self._result_of_reference(scope, plan, one, session) for one in references)

    def _conditions(self, scope: Scope, plan: Workflow, node: Task, session: Session) -> Origins:
        found = NONE
        if node.step.when:
            from pml_kit.expressions import Expression, ExpressionError

            try:
                names: Iterable[str] = Expression(node.step.when).names
            except ExpressionError:
                names = ()
            found = union(self._result_of(scope, plan, name, session) for name in names)
        return found if node.step.for_each is None else found | self._items(scope, plan, node, session)

    def _referred(
        self, scope: Scope, plan: Workflow, node: Task, references: Iterable[Reference], session: Session
    ) -> Origins:
        found = []
        for one in references:
            if one.task in EACH and not one.stored:
                own = node.step.for_each is not None
                found.append(self._items(scope, plan, node, session) if own else scope.each)
            else:
                found.append(self._result_of_reference(scope, plan, one, session))
        return union(found)

    def _result_of_reference(self, scope: Scope, plan: Workflow, one: Reference, session: Session) -> Origins:
        if one.stored:
            return scope.anything()
        return scope.each if one.task in EACH else self._result_of(scope, plan, one.task, session)

    def _result_of(self, scope: Scope, plan: Workflow, id_: str, session: Session) -> Origins:
        """Of the result of a task: as it was seen, else, as it ended before, what the plan tells."""
        if id_ in scope.results:
            return scope.results[id_]
        node = scope.nodes.get(id_)
        if node is None:
            return scope.anything()
        scope.results[id_] = NONE  # what waits for itself never runs
        scope.results[id_] = found = self._told(scope, plan, node, session)
        return found

    def _told(self, scope: Scope, plan: Workflow, node: Task, session: Session) -> Origins:
        if isinstance(node, Workflow):
            inner = Scope(node, scope.levels, scope.words, scope.base, each=self.each_of(scope, node, session))
            return union(self._result_of(inner, node, one.id, session) for one in node.tasks)
        taint = self._of_plan(scope, plan, node, session)
        if isinstance(node, ToolCall):
            entry = self._catalog.resolve(node.tool, session)
            return taint.origins | self._of_tool(scope, node if entry is None else replace(node, tool=entry.id))
        if isinstance(node, CapabilityRun):
            return taint.origins | scope.anything()
        return self.result(scope, node, taint, None)


def _origin(scope: Scope, server: str, tool: str, task: Task) -> Origin:
    where = f" in task {planned_id(task.id)!r}" if isinstance(scope.task, Workflow) else ""
    return Origin(server, f"{tool}{where}")


def _all(origins: Origins) -> tuple[tuple[Path, Origins], ...]:
    return (((), origins),) if origins else ()


def _slots(scope: Scope, task: Task, *, undoing: bool) -> Sequence[Slot]:
    key = f"{task.id}{UNDO}" if undoing else task.id
    if (slots := scope.slots.get(key)) is None:
        slots = scope.slots[key] = find(values_of(task)).slots
    return slots


def named_in(scope: Scope, code: CodeRun) -> Iterator[Origin]:
    """Untrusted servers whose names the code has: a rehearsal, where it does not run, tells the same of it."""
    for name, words in scope.levels.items():
        if words == "trusted":
            continue
        spelt = re.sub(r"\W", "_", name, flags=re.ASCII)
        if any(re.search(rf"(?<!\w){re.escape(one)}(?=\W|__|$)", code.source) for one in {name, spelt}):
            yield Origin(name, f"{name} in code {planned_id(code.id)!r}")
