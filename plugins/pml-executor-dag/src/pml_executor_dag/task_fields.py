"""Reads one task of a plan: what it runs, and how the workflow treats it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pml_hookspecs import CapabilityRun, CodeRun, Json, PluginTask, Retry, Step, Task, ToolCall, ToolId, Workflow
from pml_hookspecs.tasks import ONCE
from pml_kit.references import parse

from .fields import LONGEST_CODE, Fields, kind, one_of

MOST_ATTEMPTS = 20
MOST_ITEMS = 1000
MOST_S = 7 * 24 * 3600.0
"""Any time that a plan may name [s]."""
MOST_CALLS = 1_000_000
MOST_USD = 1_000_000.0
MOST_PARALLEL = 1000

TYPES = ("tool", "code_execution", "capability", "workflow")
OTHER_NAMES = {"code": "code_execution"}
LIMITS = ("max_parallel", "timeout_s", "max_tool_calls", "max_cost_usd")
OWN = {
    "tool": ("tool", "arguments"),
    "code_execution": ("code", "language", "inputs", "intent", "tools"),
    "capability": ("capability_id", "inputs", "code", "language"),
    "workflow": ("tasks", *(name for name in LIMITS if name != "timeout_s")),
}
"""What each type of task has besides :data:`COMMON`."""
OF_PLUGIN = ("inputs",)
"""What tasks have of types that plugins run."""
STEP = (
    "when", "for_each", "max_items", "retry", "timeout_s", "on_error", "compensate", "idempotency_key", "select",
    "approve",
)  # fmt: skip
COMMON = ("id", "type", "depends_on", *STEP)
UNDO = ("type", "timeout_s", "retry", "idempotency_key")
"""What a task that undoes another has in common with tasks."""
LANGUAGE = "typescript"
"""Of code that does not say."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

Tasks = Callable[[Mapping[str, Any], str, bool], tuple[Task, ...]]
"""Reads the tasks of a workflow within: of which object, where, and whether each of its items is one run of it."""


class TaskFields:
    """Reads single tasks."""

    def __init__(self, fields: Fields, tasks: Tasks, types: Collection[str]) -> None:
        """``types`` are those of plugins' tasks."""
        self._fields, self._tasks, self._types = fields, tasks, (*TYPES, *types)

    def task(self, given: Mapping[str, Any], where: str) -> tuple[Task | None, list[tuple[str, str]]]:
        """The task, None when its type is wrong; and ``(where, id)`` of what it says that it needs.

        Its id is ``""`` when that is wrong.
        """
        id_ = self._id(given, where)
        depends_on = self._depends_on(given, where)
        type_ = self._type(given, where)
        if not type_:
            return None, depends_on
        self._fields.names(given, (*COMMON[:3], *OWN.get(type_, OF_PLUGIN), *STEP), f"{where}.")
        step = self._step(given, id_, type_, f"{where}.")
        return self._made(type_, given, where, id_, tuple(need for _, need in depends_on), step), depends_on

    def _made(
        self, type_: str, given: Mapping[str, Any], where: str, id_: str, depends_on: tuple[str, ...], step: Step
    ) -> Task:
        if type_ == "tool":
            return self._tool(given, f"{where}.", id_, depends_on, step)
        if type_ == "code_execution":
            return self._code(given, f"{where}.", id_, depends_on, step)
        if type_ == "capability":
            return self._capability(given, f"{where}.", id_, depends_on, step)
        if type_ != "workflow":
            inputs = self._fields.object(given, "inputs", f"{where}.")
            return PluginTask(id=id_, type=type_, inputs=inputs, depends_on=depends_on, step=step)
        tasks = self._tasks(given, f"{where}.tasks", step.for_each is not None)
        bounds = limits(self._fields, given, f"{where}.")
        return Workflow(id=id_, tasks=tasks, depends_on=depends_on, step=step, **bounds)

    def _type(self, given: Mapping[str, Any], where: str) -> str:
        type_ = given.get("type", "tool")
        if isinstance(type_, str) and type_ in self._types:
            return type_
        shown = kind(type_) if not isinstance(type_, str) else repr(type_[:80])
        near = OTHER_NAMES.get(type_) if isinstance(type_, str) else None
        hint = f"; did you mean {near!r}?" if near else ""
        self._fields.wrong(f"{where}.type", f"must be {one_of(self._types)}, not {shown}{hint}")
        return ""

    def _tool(self, given: Mapping[str, Any], at: str, id_: str, depends_on: tuple[str, ...], step: Step) -> ToolCall:
        tool = self._fields.text(given, "tool", at, needed='name the tool, such as "server:tool"')
        arguments = self._fields.object(given, "arguments", at)
        return ToolCall(id=id_, tool=ToolId(tool), arguments=arguments, depends_on=depends_on, step=step)

    def _code(self, given: Mapping[str, Any], at: str, id_: str, depends_on: tuple[str, ...], step: Step) -> CodeRun:
        fields = self._fields
        source = fields.text(
            given, "code", at, needed='give the body of a function, such as "return a.total"', most=LONGEST_CODE
        )
        language = fields.word(given, "language", at, LANGUAGE)
        return CodeRun(
            id=id_,
            language=language,
            source=source,
            inputs=fields.object(given, "inputs", at),
            depends_on=depends_on,
            step=step,
            intent=fields.text(given, "intent", at),
            timeout_s=self._seconds(given, "timeout_s", at),
            tools=self._texts(given, "tools", at, 'patterns of tool ids such as ["files:*"]'),
        )

    def _capability(
        self, given: Mapping[str, Any], at: str, id_: str, depends_on: tuple[str, ...], step: Step
    ) -> CapabilityRun:
        fields = self._fields
        capability = fields.text(given, "capability_id", at, needed="give its id, or the name that search_tools has")
        return CapabilityRun(
            id=id_,
            capability_id=capability,
            inputs=fields.object(given, "inputs", at),
            depends_on=depends_on,
            step=step,
            source=fields.text(given, "code", at, most=LONGEST_CODE),
            language=fields.word(given, "language", at, LANGUAGE),
        )

    def _id(self, given: Mapping[str, Any], where: str) -> str:
        id_ = given.get("id")
        if isinstance(id_, str) and _ID.fullmatch(id_):
            return id_
        if "id" not in given:
            self._fields.wrong(f"{where}.id", "is missing; name the task, so that others can refer to it")
        elif isinstance(id_, str):
            self._fields.wrong(f"{where}.id", f"{id_[:80]!r} must be 1 to 64 letters, digits, '_' or '-'")
        else:
            self._fields.wrong(f"{where}.id", f"must be a string, not {kind(id_)}")
        return ""

    def _depends_on(self, given: Mapping[str, Any], where: str) -> list[tuple[str, str]]:
        depends_on = given.get("depends_on", ())
        if not isinstance(depends_on, (list, tuple)):
            what = f'must be an array of task ids such as ["a"], not {kind(depends_on)}'
            self._fields.wrong(f"{where}.depends_on", what)
            return []
        good = []
        for i, need in enumerate(depends_on):
            if isinstance(need, str):
                good.append((f"{where}.depends_on[{i}]", need))
            else:
                self._fields.wrong(f"{where}.depends_on[{i}]", f"must be the id of a task, not {kind(need)}")
        return good

    def _step(self, given: Mapping[str, Any], id_: str, type_: str, at: str) -> Step:
        if not any(name in given for name in STEP):
            return ONCE
        fields = self._fields
        on_error: Any = fields.choice(given, "on_error", at, ("fail", "continue", "skip"))
        return Step(
            when=fields.text(given, "when", at),
            max_items=fields.whole(given, "max_items", at, least=1, most=MOST_ITEMS) or Step().max_items,
            for_each=self._for_each(given, at),
            retry=self._retry(given, at),
            # Code and workflows have a limit of their own, which leaves more of what they did.
            timeout_s=self._seconds(given, "timeout_s", at) if type_ not in ("code_execution", "workflow") else None,
            on_error=on_error,
            compensate=self._compensate(given, id_, at),
            idempotency_key=fields.text(given, "idempotency_key", at),
            select=expression(fields, given, at),
            approve=fields.boolean(given, "approve", at),
        )

    def _for_each(self, given: Mapping[str, Any], at: str) -> Json:
        each: Json = given.get("for_each")
        if "for_each" not in given:
            return None
        if isinstance(each, (list, tuple)):
            most = given.get("max_items", Step().max_items)
            if isinstance(most, int) and len(each) > most:
                self._fields.wrong(f"{at}for_each", f"has {len(each)} items; max_items allows {most}")
        elif not isinstance(each, str) or not is_reference(each):
            what = f"must be an array, or a reference to one such as {{{{a.items}}}}, not {kind(each)}"
            self._fields.wrong(f"{at}for_each", what)
            return None
        return each

    def _retry(self, given: Mapping[str, Any], at: str) -> Retry:
        retry, default = self._fields.object(given, "retry", at), Retry()
        self._fields.names(retry, ("attempts", "delay_s", "most_delay_s"), f"{at}retry.")
        attempts = self._fields.whole(retry, "attempts", f"{at}retry.", least=1, most=MOST_ATTEMPTS)
        delays = [
            self._fields.number(retry, name, f"{at}retry.", least=0, most=3600, unit=" [s]")
            for name in ("delay_s", "most_delay_s")
        ]
        return Retry(
            attempts=default.attempts if attempts is None else attempts,
            delay_s=default.delay_s if delays[0] is None else delays[0],
            most_delay_s=default.most_delay_s if delays[1] is None else delays[1],
        )

    def _compensate(self, given: Mapping[str, Any], id_: str, at: str) -> Task | None:
        if "compensate" not in given:
            return None
        undo, where = self._fields.object(given, "compensate", at), f"{at}compensate"
        type_ = self._type(undo, where) if isinstance(given["compensate"], Mapping) else ""
        if not type_:
            return None
        self._fields.names(undo, (*UNDO, *OWN.get(type_, OF_PLUGIN)), f"{where}.")
        # What it must not have is told once, and not read.
        own = {name: value for name, value in undo.items() if name in UNDO}
        return self._made(type_, undo, where, f"{id_}~undo", (), self._step(own, id_, type_, f"{where}."))

    def _seconds(self, given: Mapping[str, Any], name: str, at: str) -> float | None:
        return self._fields.number(given, name, at, least=0.001, most=MOST_S, unit=" [s]")

    def _texts(self, given: Mapping[str, Any], name: str, at: str, such_as: str) -> tuple[str, ...] | None:
        if name not in given:
            return None
        texts: Any = given[name]
        if not isinstance(texts, Sequence) or isinstance(texts, str) or not all(isinstance(t, str) for t in texts):
            self._fields.wrong(f"{at}{name}", f"must be an array of {such_as}")
            return None
        return tuple(texts)


def limits(fields: Fields, given: Mapping[str, Any], at: str) -> dict[str, Any]:
    """What a workflow may take, as members of :class:`Workflow`."""
    return {
        "max_parallel": fields.whole(given, "max_parallel", at, least=1, most=MOST_PARALLEL),
        "timeout_s": fields.number(given, "timeout_s", at, least=0.001, most=MOST_S, unit=" [s]"),
        "max_tool_calls": fields.whole(given, "max_tool_calls", at, least=0, most=MOST_CALLS),
        "max_cost_usd": fields.number(given, "max_cost_usd", at, least=0, most=MOST_USD, unit=" [USD]"),
    }


def expression(fields: Fields, given: Mapping[str, Any], at: str) -> str:
    """The member ``select``: a JMESPath expression; ``""`` without one."""
    text = fields.text(given, "select", at)
    if text:
        from pml_kit.expressions import Expression, ExpressionError

        try:
            Expression(text)
        except ExpressionError as exc:
            fields.wrong(f"{at}select", str(exc))
            return ""
    return text


def is_reference(text: str) -> bool:
    """Whether the whole of ``text`` is one reference; also when it is one that cannot be read."""
    try:
        parts = parse(text)
    except ValueError:
        return True
    return len(parts) == 1 and not isinstance(parts[0], str)
