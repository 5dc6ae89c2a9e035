"""Plans that schedules run, as the configuration or a file has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LARGEST_BYTES = 4 << 20
SHAPE = '{"workflow": {"tasks": [{"id": "a", "tool": "server:tool"}]}}'


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
