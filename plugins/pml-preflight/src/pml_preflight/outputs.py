"""What references will find: declared and learned shapes of the results of earlier steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pml_hookspecs import CodeRun, InvalidArguments, ToolCall, Workflow
from pml_kit.mcp.tool_schemas import output_schema
from pml_kit.offers.plan_graphs import INDEX, ITEM, PlanGraph, PlanNode
from pml_kit.references import Reference, Slot, path_text

from .facts import PlanFacts
from .findings import Finding, error, note, warning
from .shapes import ANYTHING, INTEGER, MissingPath, SubSchema, clash, follow, of_value, outline_of, unpromised

PROGRAM = {
    "type": "object",
    "properties": {"stdout": {"type": "string"}, "stderr": {"type": "string"}, "exit_code": {"type": "integer"}},
    "additionalProperties": False,
}
ARRAY = SubSchema(True, {"type": "array"})
MOST_ITEMS = 20
"""Items of a literal ``for_each`` that are looked at."""
MISSING, UNNAMED, TYPE = "reference.missing", "reference.undeclared", "reference.type"
OPTIONAL = "reference.optional"


class Outputs:
    """Shapes of results, by the path of the step."""

    def __init__(self, facts: PlanFacts) -> None:
        self._facts = facts
        self._kept: dict[str, SubSchema] = {}

    def of(self, node: PlanNode) -> SubSchema:
        """The result value of a step; of one with ``for_each``, the array of these."""
        if node.path not in self._kept:
            # A plan in a circle comes back here.
            self._kept[node.path] = ANYTHING
            self._kept[node.path] = self._made(node)
        return self._kept[node.path]

    def _made(self, node: PlanNode) -> SubSchema:
        if node.known:
            return ANYTHING
        part = self._one(node)
        if node.task.step.for_each is None:
            return part
        return ARRAY if part is ANYTHING else _wrapped(part)

    def _one(self, node: PlanNode) -> SubSchema:
        task = node.task
        if isinstance(task, ToolCall):
            return self._of_tool(task)
        if isinstance(task, CodeRun) and task.program:
            return SubSchema(PROGRAM, PROGRAM)
        if isinstance(task, Workflow) and node.inner is not None:
            return self._of_workflow(node.inner)
        return ANYTHING

    def _of_tool(self, task: ToolCall) -> SubSchema:
        entry = self._facts.entry(task.tool)
        if entry is None:
            return ANYTHING
        declared = output_schema(entry)
        if declared is not None:
            return SubSchema(declared, declared)
        past, note = self._facts.recorded.get(entry.id), self._facts.notes.get(entry.id)
        learned = past.result if past is not None and past.result is not None else note and note.result
        return SubSchema(learned, learned, sure=False) if learned else ANYTHING

    def _of_workflow(self, graph: PlanGraph) -> SubSchema:
        """A report; the results of its tasks are not looked into."""
        tasks = {"type": "array", "prefixItems": [{"type": "object"} for _ in graph.nodes], "items": False}
        schema = {"type": "object", "properties": {"status": {"type": "string"}, "tasks": tasks}}
        return SubSchema(schema, {**schema, "additionalProperties": True})

    def given(self, reference: Reference, node: PlanNode, *, each: bool = False) -> SubSchema | MissingPath:
        """What ``reference`` in ``node`` will find; ``each`` says that it stands in its ``for_each``."""
        if reference.stored:
            return self._of_stored(reference)
        start = self._start(reference.task, node, each=each)
        return ANYTHING if start is ANYTHING else follow(start, reference.path)

    def _of_stored(self, reference: Reference) -> SubSchema | MissingPath:
        """What a stored result has there: its kind, and that of its members."""
        if reference.text not in self._facts.stored:
            return ANYTHING
        found = self._facts.stored[reference.text]
        if isinstance(found, InvalidArguments):
            return MissingPath(str(found), certain=True)
        schema = outline_of(found)
        return SubSchema(schema, schema)

    def _start(self, id_: str, node: PlanNode, *, each: bool = False) -> SubSchema:
        graph = node.graph
        if id_ in (ITEM, INDEX):
            # What the items are of is looked up before there is one.
            holder = node if node.task.step.for_each is not None and not each else graph.above
            if holder is not None and holder.task.step.for_each is not None:
                return INTEGER if id_ == INDEX else self.item(holder)
        found = graph.nodes.get(id_)
        return ANYTHING if found is None else self.of(found)

    def item(self, node: PlanNode) -> SubSchema:
        """One item of ``for_each``."""
        each: Any = node.task.step.for_each
        if isinstance(each, (list, tuple)):
            if node.each or not each:
                return ANYTHING
            schema = {"anyOf": [of_value(item) for item in each[:MOST_ITEMS]]}
            return SubSchema(schema, schema)
        array = self._array(node)
        if not isinstance(array, SubSchema) or isinstance(array.node, list):
            return ANYTHING
        found = follow(array, (0,))
        return found if isinstance(found, SubSchema) else ANYTHING

    def _array(self, node: PlanNode) -> SubSchema | MissingPath:
        for slot in node.each:
            if slot.whole and not slot.path:
                return self.given(slot.whole, node, each=True)
        return ANYTHING

    def findings(self, node: PlanNode) -> list[Finding]:
        """References of one step that find nothing, and a ``for_each`` of what is no array."""
        name = "arguments" if isinstance(node.task, ToolCall) else "inputs"
        found = [*self._lost(node, node.values, name), *self._lost(node, node.each, "for_each")]
        found += self._lost(node, node.undo, "compensate", undo=True)
        array = self._array(node)
        if isinstance(array, SubSchema) and (reason := clash(array, ARRAY)):
            text = node.each[0].references[0].text
            level = error if array.sure else warning
            found.append(level(TYPE, node.path, f"{text} {reason}", "for_each"))
        return found

    def _lost(self, node: PlanNode, slots: Iterable[Slot], name: str, *, undo: bool = False) -> list[Finding]:
        found = []
        for slot in slots:
            for reference in slot.references:
                at = f"{name}{path_text(slot.path)}"
                if reference.stored:
                    if isinstance(lost := self._of_stored(reference), MissingPath):
                        found.append(error(MISSING, node.path, f"{reference.text} finds nothing: {lost.message}", at))
                    continue
                if undo and reference.task == node.task.id:
                    # Of several items, the result of the one that is undone.
                    start = self._one(node)
                else:
                    start = self._start(reference.task, node, each=slots is node.each)
                end = ANYTHING if start is ANYTHING else follow(start, reference.path)
                if isinstance(end, MissingPath):
                    found.append(_told(node, reference, end, at, sure=start.sure))
                elif member := unpromised(start, reference.path):
                    message = f"{reference.text} may find nothing: {reference.task} need not have {member!r}"
                    found.append(note(OPTIONAL, node.path, message, at))
        return found


def _told(node: PlanNode, reference: Reference, lost: MissingPath, at: str, *, sure: bool) -> Finding:
    message = f"{reference.text} finds nothing: in {reference.task}, {lost.message}"
    level, code = (error, MISSING) if lost.certain and sure else (warning, UNNAMED)
    return level(code, node.path, message, at)


def _wrapped(part: SubSchema) -> SubSchema:
    """An array of these; references in it are still to the document that they were in."""
    return SubSchema(part.root, {"type": "array", "items": part.node}, part.sure)
