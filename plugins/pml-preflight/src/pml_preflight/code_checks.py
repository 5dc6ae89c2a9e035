"""What the executors of a plan's code say of it, before any of it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pml_hookspecs import CapabilityRun, CodeRun, Task, ToolCall, replace
from pml_kit.offers import STATIC_CHECKS, Verdict, required

from .code import PYTHON, read
from .facts import CodeFacts, PlanFacts

if TYPE_CHECKING:
    from pml_hookspecs import Services, Session
    from pml_kit.offers.plan_graphs import PlanGraph, PlanNode

DEEPEST = 4
"""Tasks that stand for one another."""
NOTHING = Verdict()


class CodeChecks:
    """Asks for verdicts on all code of a plan at once."""

    def __init__(self, services: Services, within_s: float) -> None:
        """``within_s``: longest time for one piece of code [s]; 0 to ask nobody."""
        self._services, self._within_s = services, within_s

    async def of(self, graph: PlanGraph, facts: PlanFacts) -> dict[str, CodeFacts]:
        """By path of the step: every code and capability, and tools that stand for one of them."""
        asked = list(self._asked(graph, facts))
        found = await asyncio.gather(*(self._one(task, facts.session) for _, task in asked))
        return {node.path: one for (node, _), one in zip(asked, found, strict=True)}

    def _asked(self, graph: PlanGraph, facts: PlanFacts) -> Iterator[tuple[PlanNode, Task]]:
        for node in graph.all_nodes():
            task = node.task
            if node.known:
                continue
            if isinstance(task, CodeRun):
                given, others = names_given(node, task)
                # Of inputs only the names count. That Python is not given others is told by itself.
                names = {*given, *others} if task.language == PYTHON else given
                yield node, replace(task, inputs=dict.fromkeys(sorted(names)))
            elif isinstance(task, CapabilityRun):
                yield node, task
            elif isinstance(task, ToolCall):
                entry = facts.entry(task.tool)
                if entry is not None and not entry.own and entry.server not in facts.servers:
                    yield node, task

    async def _one(self, task: Task, session: Session) -> CodeFacts:
        verdict = NOTHING
        for _ in range(DEEPEST):
            if isinstance(task, CodeRun):
                return await self._code(task, session)
            verdict = await self._asked_for(task, session)
            if verdict.becomes is not None:
                task = verdict.becomes
            elif isinstance(task, CapabilityRun) and task.source and not verdict.problems:
                task = CodeRun(id=task.id, language=task.language, source=task.source, inputs=task.inputs)
            else:
                break
        return CodeFacts(verdict)

    async def _code(self, task: CodeRun, session: Session) -> CodeFacts:
        own = read(task.language, task.source)
        if own.problem and task.language == PYTHON:
            # Parsed by Python itself: nobody knows better.
            return CodeFacts(NOTHING, task, own)
        return CodeFacts(await self._asked_for(task, session), task, own)

    async def _asked_for(self, task: Task, session: Session) -> Verdict:
        if not self._within_s:
            return NOTHING
        return await required(self._services, STATIC_CHECKS).check(task, session, within_s=self._within_s)


def names_given(node: PlanNode, task: CodeRun) -> tuple[set[str], set[str]]:
    """Variables that code is given, and ids of tasks beside it of which it is not given the results."""
    given = {*task.inputs, *node.depends_on, *node.graph.external_ids}
    return given, {id_ for id_ in node.graph.nodes if id_ not in given and id_ != task.id}
