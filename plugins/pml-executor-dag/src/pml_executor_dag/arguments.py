"""Reads the arguments of ``execute_workflow``, strictly, and says everything that is wrong with them at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pml_hookspecs import Task, ToolCall, ToolId, Workflow

from .executor import MOST_MISTAKES
from .plan import MOST_NESTED, Sketch, check, did_you_mean

MOST_TASKS = 1000
"""In one request, tasks of workflows within the workflow included."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHAPE = '{"tasks": [{"id": "a", "tool": "server:tool", "arguments": {}}]}'
_FIELDS = {
    "tool": ("id", "type", "tool", "arguments", "depends_on"),
    "workflow": ("id", "type", "tasks", "depends_on"),
}
_LATER = {
    "code": "code_execution",
    "code_execution": "code_execution",
    "capability": "capability",
}


def read(arguments: Mapping[str, Any]) -> tuple[Workflow, list[str]]:
    """The workflow, and everything that is wrong with it as ``where: what`` lines.

    The workflow is only usable when nothing is wrong.
    """
    reader = _Reader()
    return reader.workflow(arguments), reader.mistakes


def _kind(value: Any) -> str:
    names = {bool: "a boolean", str: "a string", int: "a number", float: "a number", type(None): "null"}
    if isinstance(value, Mapping):
        return "an object"
    return names.get(type(value), "an array" if isinstance(value, (list, tuple)) else type(value).__name__)


class _Reader:
    def __init__(self) -> None:
        self.mistakes: list[str] = []
        self._tasks = 0

    def workflow(self, arguments: Mapping[str, Any]) -> Workflow:
        self._known_names(arguments, ("workflow", "intent", "dry_run"), "")
        intent, dry_run = arguments.get("intent", ""), arguments.get("dry_run")
        if not isinstance(intent, str):
            self._wrong("intent", f"must be a string, not {_kind(intent)}")
        if "dry_run" in arguments and not isinstance(dry_run, bool):
            self._wrong("dry_run", f"must be true or false, not {_kind(dry_run)}")
        return Workflow(
            id="workflow",
            tasks=self._plan(arguments),
            intent=intent if isinstance(intent, str) else "",
            dry_run=dry_run,
        )

    def _plan(self, arguments: Mapping[str, Any]) -> tuple[Task, ...]:
        plan = arguments.get("workflow")
        if "workflow" not in arguments:
            hint = (
                "; planning from an intent alone comes later: find tools with search_tools"
                if "intent" in arguments
                else ""
            )
            self._wrong("workflow", f"is missing; give {_SHAPE}{hint}")
        elif not isinstance(plan, Mapping):
            self._wrong("workflow", f"must be an object, not {_kind(plan)}; give {_SHAPE}")
        else:
            self._known_names(plan, ("tasks",), "workflow.")
            return self._all(plan, "workflow.tasks", 0)
        return ()

    def _all(self, holder: Mapping[str, Any], where: str, depth: int) -> tuple[Task, ...]:
        tasks = holder.get("tasks")
        if depth > MOST_NESTED:
            self._wrong(where, f"more than {MOST_NESTED} workflows within workflows")
            return ()
        if not isinstance(tasks, (list, tuple)) or not tasks:
            what = (
                "is missing"
                if "tasks" not in holder
                else "is empty"
                if tasks == []
                else f"must be an array, not {_kind(tasks)}"
            )
            self._wrong(where, f'{what}; give at least one task, such as {{"id": "a", "tool": "server:tool"}}')
            return ()
        self._tasks += len(tasks)
        if self._tasks > MOST_TASKS:
            self._wrong(where, f"{self._tasks} tasks; one workflow may have {MOST_TASKS}; split it")
            return ()
        read = [self._one(task, f"{where}[{i}]", depth) for i, task in enumerate(tasks)]
        self.mistakes += check([sketch for _, sketch in read if sketch is not None])[1]
        return tuple(task for task, _ in read if task is not None)

    def _one(self, task: Any, where: str, depth: int) -> tuple[Task | None, Sketch | None]:
        if not isinstance(task, Mapping):
            self._wrong(where, f'must be an object such as {{"id": "a", "tool": "server:tool"}}, not {_kind(task)}')
            return None, None
        id_ = self._id(task, where)
        needs = self._needs(task, where)
        type_ = self._type(task, where)
        made: Task | None = None
        if type_ == "tool":
            made = self._tool(task, id_, where, needs)
        elif type_ == "workflow":
            inner = self._all(task, f"{where}.tasks", depth + 1)
            made = Workflow(id=id_, tasks=inner, needs=tuple(need for _, need in needs))
        if not id_:
            return made, None
        values = made.arguments if isinstance(made, ToolCall) else {}
        return made, Sketch(id=id_, where=where, needs=needs, values=values, values_where=f"{where}.arguments")

    def _type(self, task: Mapping[str, Any], where: str) -> str:
        type_ = task.get("type", "tool")
        if isinstance(type_, str) and type_ in _FIELDS:
            self._known_names(task, _FIELDS[type_], f"{where}.")
            return type_
        if not isinstance(type_, str):
            what = f"must be 'tool' or 'workflow', not {_kind(type_)}"
        elif later := _LATER.get(type_):
            what = f"{later} tasks come with a plugin of a later version; use 'tool' or 'workflow'"
        else:
            what = f"must be 'tool' or 'workflow', not {type_[:80]!r}"
        self._wrong(f"{where}.type", what)
        return ""

    def _tool(self, task: Mapping[str, Any], id_: str, where: str, needs: Sequence[tuple[str, str]]) -> ToolCall:
        tool, arguments = task.get("tool"), task.get("arguments", {})
        if not isinstance(tool, str) or not tool:
            what = (
                "is missing"
                if "tool" not in task
                else "is empty"
                if tool == ""
                else f"must be a string, not {_kind(tool)}"
            )
            self._wrong(f"{where}.tool", f'{what}; name the tool, such as "server:tool"')
        if not isinstance(arguments, Mapping):
            self._wrong(f"{where}.arguments", f"must be an object, not {_kind(arguments)}")
            arguments = {}
        return ToolCall(id=id_, tool=ToolId(str(tool)), arguments=arguments, needs=tuple(need for _, need in needs))

    def _id(self, task: Mapping[str, Any], where: str) -> str:
        id_ = task.get("id")
        if isinstance(id_, str) and _ID.fullmatch(id_):
            return id_
        if "id" not in task:
            self._wrong(f"{where}.id", "is missing; name the task, so that others can refer to it")
        elif isinstance(id_, str):
            self._wrong(f"{where}.id", f"{id_[:80]!r} must be 1 to 64 letters, digits, '_' or '-'")
        else:
            self._wrong(f"{where}.id", f"must be a string, not {_kind(id_)}")
        return ""

    def _needs(self, task: Mapping[str, Any], where: str) -> list[tuple[str, str]]:
        needs = task.get("depends_on", ())
        if not isinstance(needs, (list, tuple)):
            self._wrong(f"{where}.depends_on", f'must be an array of task ids such as ["a"], not {_kind(needs)}')
            return []
        good = []
        for i, need in enumerate(needs):
            if isinstance(need, str):
                good.append((f"{where}.depends_on[{i}]", need))
            else:
                self._wrong(f"{where}.depends_on[{i}]", f"must be the id of a task, not {_kind(need)}")
        return good

    def _known_names(self, given: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
        for name in given:
            if name not in known:
                # Comparing words takes time, and a message does not show more lines than that.
                near = did_you_mean(name, known) if len(self.mistakes) < MOST_MISTAKES else ""
                self._wrong(f"{where}{name[:80]}", f"unknown{near or '; known here: ' + ', '.join(known)}")

    def _wrong(self, where: str, what: str) -> None:
        self.mistakes.append(f"{where}: {what}")
