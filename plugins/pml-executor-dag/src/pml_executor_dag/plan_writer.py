"""Writes a workflow as ``execute_workflow`` takes it."""

from __future__ import annotations

from typing import Any

from pml_hookspecs import CapabilityRun, CodeRun, PluginTask, Retry, Step, Task, ToolCall, Workflow
from pml_hookspecs.tasks import ONCE

from .plan import type_of

STEP = ("when", "for_each", "max_items", "timeout_s", "on_error", "idempotency_key", "select", "approve")
PLAN = ("max_parallel", "timeout_s", "max_tool_calls", "max_cost_usd")


def written(workflow: Workflow) -> dict[str, Any]:
    """The arguments that make ``execute_workflow`` run ``workflow``; what is as it is by default is left out."""
    plan: dict[str, Any] = {"tasks": [_task(task) for task in workflow.tasks], **_limits(workflow)}
    if workflow.durable:
        plan["durable"] = True
    if workflow.by_layer:
        plan["per_layer_validation"] = True
    if workflow.returns:
        plan["return"] = list(workflow.returns)
    if workflow.step.select:
        plan["select"] = workflow.step.select
    arguments: dict[str, Any] = {"workflow": plan}
    if workflow.intent:
        arguments["intent"] = workflow.intent
    if not workflow.wait:
        arguments["async"] = True
    if workflow.dry_run is not None:
        arguments["dry_run"] = workflow.dry_run
    return arguments


def _limits(workflow: Workflow) -> dict[str, Any]:
    return {name: value for name in PLAN if (value := getattr(workflow, name)) is not None}


def _task(task: Task) -> dict[str, Any]:
    told: dict[str, Any] = {"id": task.id, **_what(task)}
    if task.depends_on:
        told["depends_on"] = list(task.depends_on)
    return told | _step(task.step)


def _what(task: Task) -> dict[str, Any]:
    """Its type, and what only that has."""
    if isinstance(task, ToolCall):
        return {"tool": task.tool} | ({"arguments": dict(task.arguments)} if task.arguments else {})
    told: dict[str, Any] = {"type": type_of(task)}
    more: dict[str, Any]
    if isinstance(task, Workflow):
        return told | {"tasks": [_task(inner) for inner in task.tasks], **_limits(task)}
    if isinstance(task, CodeRun):
        told |= {"code": task.source, "language": task.language}
        more = {"intent": task.intent, "timeout_s": task.timeout_s}
        if task.tools is not None:
            told["tools"] = list(task.tools)
    elif isinstance(task, CapabilityRun):
        told["capability_id"] = task.capability_id
        more = {"code": task.source, "language": task.language if task.source else ""}
    elif isinstance(task, PluginTask):
        more = {}
    else:
        raise TypeError(f"{type(task).__name__} is no part of a plan")
    more["inputs"] = dict(task.inputs)
    return told | {name: value for name, value in more.items() if value}


def _step(step: Step) -> dict[str, Any]:
    if step == ONCE:
        return {}
    told = {name: value for name in STEP if (value := getattr(step, name)) != getattr(ONCE, name)}
    if step.retry != Retry():
        retry, default = step.retry, Retry()
        names = ("attempts", "delay_s", "most_delay_s")
        told["retry"] = {name: getattr(retry, name) for name in names if getattr(retry, name) != getattr(default, name)}
    if step.compensate is not None:
        told["compensate"] = {**_what(step.compensate), **_step(step.compensate.step)}
    return told
