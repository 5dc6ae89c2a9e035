"""What a client is answered of a workflow: the status of every task, and the results that were asked for.

The report has everything, and the history keeps it. Results of tasks that others need have done their work: what
enters a model's context are those of the last ones, unless the plan says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pml_hookspecs import Json, RawObject, Task, Workflow, encode
from pml_kit.expressions import Expression, ExpressionError

from .arguments import ALL

SHOWN = ("id", "status", "attempts", "error", "warnings")
"""Members of a task in a short answer."""
NOT_SHOWN = frozenset({"layers", "intent", "tasks"})
"""Members of a report that a short answer has not, or in another form."""
PROBLEM = "select_error"
"""Member that says why an expression found nothing: everything that it was to select from is answered then."""
MOST_WORK = 100_000_000
"""Of one expression."""


async def selected_answer(output: Json, task: Task) -> Json:
    """A workflow's report cut to what was asked for, as compact JSON; anything else as it is.

    A rehearsal is answered whole, since it is read before anything runs, and so is what is asked for whole.
    """
    if not isinstance(task, Workflow) or not isinstance(output, Mapping) or not _is_report(output):
        return output
    if output.get("dry_run") is True or (ALL in task.returns and not _selects(task)):
        return output
    return encode(await shaped(output, task)).decode()


async def shaped(report: Mapping[str, Any], workflow: Workflow) -> dict[str, Any]:
    """The report of a workflow that ran for real, cut to what ``workflow`` says is to be answered."""
    tasks = {str(told["id"]): told for told in report["tasks"]}
    known = {task.id: task for task in workflow.tasks}
    results = {id_: await _result(told, known.get(id_)) for id_, told in tasks.items() if "result" in told}
    head = {name: member for name, member in report.items() if name not in NOT_SHOWN}
    if workflow.step.select:
        try:
            head["result"] = await _found(workflow.step.select, {id_: told["result"] for id_, told in results.items()})
        except ExpressionError as exc:
            head[PROBLEM] = str(exc)
        else:
            return head | {"tasks": [_short(told) for told in tasks.values()]}
    if ALL in workflow.returns:
        whole = [told | results.get(id_, {}) for id_, told in tasks.items()]
        return {**report, **head, "tasks": whole}
    wanted = frozenset(workflow.returns) or _last(tasks)
    shown = [_short(told) | (results.get(id_, {}) if id_ in wanted else {}) for id_, told in tasks.items()]
    return head | {"tasks": shown}


def _selects(workflow: Workflow) -> bool:
    return bool(workflow.step.select) or any(task.step.select for task in workflow.tasks)


def _is_report(output: Mapping[str, Any]) -> bool:
    tasks = output.get("tasks")
    return isinstance(tasks, list) and all(isinstance(told, Mapping) and "id" in told for told in tasks)


def _short(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: told[name] for name in SHOWN if name in told}


def _last(tasks: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Of the tasks that have a result, those that none which has one needs."""
    ended = {id_: told for id_, told in tasks.items() if "result" in told}
    needed = {need for told in ended.values() for need in told.get("depends_on", ())}
    return frozenset(ended) - needed


async def _result(told: Mapping[str, Any], task: Task | None) -> dict[str, Any]:
    """The member ``result``, cut as the task says; a workflow's within is cut like the outermost one's."""
    result = told["result"]
    if told.get("type") == "workflow":
        inner = task if isinstance(task, Workflow) else Workflow(id="", tasks=())
        several = isinstance(result, list)
        cut = [await shaped(one, inner) if _is_inner(one) else one for one in (result if several else [result])]
        return {"result": cut if several else cut[0]}
    if task is None or not task.step.select:
        return {"result": result}
    try:
        return {"result": await _found(task.step.select, result)}
    except ExpressionError as exc:
        return {"result": result, PROBLEM: str(exc)}


async def _found(select: str, value: Any) -> Any:
    return await Expression(select).find_apart(_plain(value), most_work=MOST_WORK)


def _plain(value: Any) -> Any:
    """``value`` with results as dictionaries, which functions of JMESPath tell from others by their type."""
    if isinstance(value, RawObject):
        return value.value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {name: _plain(member) for name, member in value.items()} if isinstance(value, Mapping) else value


def _is_inner(value: Any) -> bool:
    return isinstance(value, Mapping) and _is_report(value)
