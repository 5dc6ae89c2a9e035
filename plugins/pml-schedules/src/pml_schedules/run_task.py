"""What a schedule runs, as a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pml_hookspecs import CapabilityRun, Task, ToolCall, ToolId

if TYPE_CHECKING:
    from pml_hookspecs import Catalog

    from .settings import Schedule

WORKFLOW_TOOL = ToolId("pml:execute_workflow")
AGENTS = "agents"
"""Server whose tools are the configured agents."""


def task_of(schedule: Schedule, name: str) -> Task:
    """What to run, under the id ``name``.

    Raises:
        ValueError: The file with the plan cannot be used; says why.
    """
    if schedule.agent:
        arguments = {**schedule.arguments, "message": schedule.message}
        return ToolCall(id=name, tool=ToolId(f"{AGENTS}:{schedule.agent}"), arguments=arguments)
    if schedule.capability:
        return CapabilityRun(id=name, capability_id=schedule.capability, inputs=schedule.inputs)
    if schedule.tool:
        return ToolCall(id=name, tool=ToolId(schedule.tool), arguments=schedule.arguments)
    from .plan_file import arguments_of, read_plan

    plan = schedule.workflow if isinstance(schedule.workflow, Mapping) else read_plan(schedule.workflow)
    return ToolCall(id=name, tool=WORKFLOW_TOOL, arguments=arguments_of(plan))


def likely_problem(schedule: Schedule, catalog: Catalog) -> str:
    """Why a run would fail as things stand; ``""`` when nothing speaks against it."""
    if isinstance(schedule.workflow, str) and schedule.workflow:
        from .plan_file import read_plan

        try:
            read_plan(schedule.workflow)
        except ValueError as exc:
            return str(exc)
    if schedule.capability:
        return ""
    tool = schedule.tool or (f"{AGENTS}:{schedule.agent}" if schedule.agent else WORKFLOW_TOOL)
    if catalog.resolve(tool) is not None:
        return ""
    from difflib import get_close_matches

    if schedule.agent:
        known = [entry.name for entry in catalog if entry.server == AGENTS]
        what, asked = f"agent: there is no agent {schedule.agent!r}", schedule.agent
    else:
        known = [str(entry.id) for entry in catalog]
        what, asked = f"tool: there is no tool {tool!r}", tool
    near = get_close_matches(asked[:128], known, n=2)
    return what + (f"; did you mean {' or '.join(map(repr, near))}?" if near else "")
