"""A plan as people write it: JSON as ``execute_workflow`` takes it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_console.history import plain

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionRecord

SHAPE = '{"workflow": {"tasks": [{"id": "a", "tool": "server:tool", "arguments": {}}]}}'
OF_REQUEST = ("dry_run", "plan_digest")
"""Arguments that say how a plan is run, which the page's buttons do."""
RECORDED = frozenset({"id", "type", "target", "depends_on", "request"})
"""Members of a task as the history keeps it; the others are those of a plan."""
OF_CODE = ("inputs", "tools", "timeout_s")
LONGEST_LINE = 200
"""Characters of a line that are shown around a mistake."""


class PlanTextError(ValueError):
    """A text is no plan: where, and why; :attr:`line` is what stands there, with a mark below the place, or ``""``."""

    def __init__(self, message: str, line: str = "") -> None:
        super().__init__(message)
        self.line = line


def arguments_of(text: str) -> dict[str, Any]:
    """The arguments of ``execute_workflow``; a plan may be given without the member ``workflow`` around it.

    Raises:
        PlanTextError: It is not JSON, or no object.
    """
    try:
        plan = json.loads(text)
    except json.JSONDecodeError as exc:
        where = f"Line {exc.lineno}, column {exc.colno}"
        raise PlanTextError(f"{where}: this is not JSON: {exc.msg}.", _marked(text, exc)) from None
    except RecursionError:
        raise PlanTextError("The plan is nested too deeply.") from None
    if not isinstance(plan, dict):
        raise PlanTextError(f"A plan is an object, such as {SHAPE}")
    plan = {name: value for name, value in plan.items() if name not in OF_REQUEST}
    if "tasks" not in plan or "workflow" in plan:
        return plan
    intent = {"intent": plan.pop("intent")} if "intent" in plan else {}
    return {**intent, "workflow": plan}


def _marked(text: str, exc: json.JSONDecodeError) -> str:
    lines = text.split("\n")
    start = max(0, exc.colno - 1 - LONGEST_LINE // 2)
    shown = lines[exc.lineno - 1][start : start + LONGEST_LINE] if exc.lineno <= len(lines) else ""
    return f"{shown}\n{' ' * (exc.colno - 1 - start)}^" if shown.strip() else ""


def line_of(text: str, task: str) -> int | None:
    """The line, from 1, where the innermost task of a path such as ``outer/inner`` has its id; None if not found."""
    id = task.rsplit("/", 1)[-1].partition("[")[0]
    found = re.search(rf'"id"\s*:\s*{re.escape(json.dumps(id, ensure_ascii=False))}', text) if id else None
    return text.count("\n", 0, found.start()) + 1 if found else None


def text_of(record: ExecutionRecord) -> str:
    """What an execution was asked, as a plan.

    Raises:
        PlanTextError: That is not known any more.
    """
    request = plain(record.request)
    if not isinstance(request, Mapping) or request.get("truncated") is True:
        raise PlanTextError("What this execution was asked was too long to be kept whole, so there is no plan of it.")
    if record.kind == "workflow":
        workflow = {**request, "tasks": _tasks(request.get("tasks"))}
    else:
        workflow = {"tasks": [_task({"id": "a", "type": record.kind, "target": record.target, "request": request})]}
    intent = {"intent": record.intent} if record.intent else {}
    return json.dumps({**intent, "workflow": workflow}, indent=2, ensure_ascii=False)


def _tasks(recorded: Any) -> list[dict[str, Any]]:
    nodes = recorded if isinstance(recorded, Sequence) else ()
    return [_task(node) for node in nodes if isinstance(node, Mapping)]


def _task(node: Mapping[str, Any]) -> dict[str, Any]:
    """One task as plans have it, of the way in which the history keeps it."""
    kind, target = node.get("type"), node.get("target")
    request = node.get("request")
    asked = request if isinstance(request, Mapping) else {}
    told: dict[str, Any] = {"id": node.get("id")}
    match kind:
        case "tool":
            told |= {"tool": target, "arguments": asked}
        case "code":
            told |= {"type": "code_execution", "language": target, "code": asked.get("source")}
            told |= {
                name: asked[name] for name in ("inputs", "tools", "timeout_s") if asked.get(name) not in (None, {})
            }
        case "capability":
            told |= {"type": kind, "capability_id": target, "inputs": asked}
        case "workflow":
            told |= {"type": kind, **asked, "tasks": _tasks(asked.get("tasks"))}
        case _:
            told |= {"type": kind, "inputs": asked}
    told |= {"depends_on": node["depends_on"]} if node.get("depends_on") else {}
    told |= {name: value for name, value in node.items() if name not in RECORDED}
    if isinstance(undo := told.get("compensate"), Mapping):
        told["compensate"] = {name: value for name, value in _task(undo).items() if name != "id"}
    return told
