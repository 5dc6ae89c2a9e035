"""What a schedule runs, as a task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CapabilityRun, Task, ToolCall, ToolId

if TYPE_CHECKING:
    from pml_hookspecs import Catalog

    from .settings import Schedule

WORKFLOW_TOOL = ToolId("pml:execute_workflow")
AGENTS = "agents"
"""Server whose tools are the configured agents."""
LARGEST_BYTES = 4 << 20
SHAPE = '{"workflow": {"tasks": [{"id": "a", "tool": "server:tool"}]}}'


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
    plan = schedule.workflow if isinstance(schedule.workflow, Mapping) else read_plan(schedule.workflow)
    return ToolCall(id=name, tool=WORKFLOW_TOOL, arguments=arguments_of(plan))


def read_plan(path: str) -> dict[str, Any]:
    """The plan in a JSON file.

    Raises:
        ValueError: There is none; says why.
    """
    file = Path(path).expanduser()
    try:
        with file.open("rb") as opened:
            raw = opened.read(LARGEST_BYTES + 1)
    except OSError as exc:
        raise ValueError(f"workflow: {file} cannot be read: {exc.strerror or exc}") from exc
    if len(raw) > LARGEST_BYTES:
        raise ValueError(f"workflow: {file} is larger than {LARGEST_BYTES} bytes")
    try:
        plan = json.loads(raw)
    except ValueError as exc:
        raise ValueError(f"workflow: {file} is not JSON: {exc}") from exc
    if isinstance(plan, dict):
        check_plan(plan, f"workflow: {file}")
        return plan
    raise ValueError(f"workflow: {file} must have an object, such as {SHAPE}")


def check_plan(plan: Mapping[str, Any], where: str = "workflow") -> None:
    """See that ``plan`` can be one; whether its tasks are right, ``execute_workflow`` knows.

    Raises:
        ValueError: It cannot.
    """
    if not {"workflow", "tasks", "intent"} & plan.keys():
        raise ValueError(f"{where}: has neither workflow nor tasks nor intent; give {SHAPE}")


def arguments_of(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Those of ``execute_workflow``; a plan may be given without the member ``workflow`` around it."""
    if "tasks" not in plan or "workflow" in plan:
        return dict(plan)
    outer = {name: plan[name] for name in ("intent", "dry_run") if name in plan}
    return {**outer, "workflow": {name: value for name, value in plan.items() if name not in outer}}


def doubt(schedule: Schedule, catalog: Catalog) -> str:
    """Why a run would fail as things stand; ``""`` when nothing speaks against it."""
    if isinstance(schedule.workflow, str) and schedule.workflow:
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
