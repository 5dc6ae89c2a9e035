"""Which steps a human would have to look at before they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pml_hookspecs import CodeRun, ToolCall, ToolId
from pml_kit.offers import STATIC_CHECKS, required

from .code import PYTHON
from .report import Report

if TYPE_CHECKING:
    from pml_hookspecs import Run, Services
    from pml_kit.offers.plan_graphs import PlanGraph

PLAN = "the plan says so"


async def approvals(report: Report, graph: PlanGraph, run: Run, services: Services) -> None:
    """Put the reasons into the steps of ``report``. Nobody is asked.

    Args:
        report: Of the plan, complete but for this.
        graph: The plan.
        run: The rehearsal of the plan.
        services: Know those who would ask.
    """
    steps = {step.path: step for step in report.steps}
    checks = required(services, STATIC_CHECKS)
    by_tool: dict[str, Sequence[str]] = {}
    for node in graph.all_nodes():
        step = steps[node.path]
        if node.known:
            continue
        reasons = [PLAN] if node.task.step.approve else []
        reasons += await checks.would_ask(node.task, run)
        for tool in step.calls:
            if tool not in by_tool:
                by_tool[tool] = await checks.would_ask(ToolCall(id=node.task.id, tool=ToolId(tool)), run)
            # Of what nobody reads here it is known which tools stand in it.
            calls = "names" if isinstance(node.task, CodeRun) and node.task.language != PYTHON else "calls"
            reasons += [f"it {calls} {tool}, and {why}" for why in by_tool[tool]]
        step.approval = "; ".join(dict.fromkeys(reasons))
