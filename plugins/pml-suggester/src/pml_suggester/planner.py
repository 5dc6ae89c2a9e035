"""Makes plans: by the client's model where there is one to ask, and by search in any case."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pml_hookspecs import CannotAskError, RpcError, ToolCall, Workflow
from pml_kit.offers import Suggestion

from .arguments import StepArguments, filled
from .history import together
from .steps import Step, steps

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Run, Services

    from .settings import Settings

CHANCES = ((0.84, 0.43), (0.8, 0.32), (0.0, 0.11))
"""From which relevance on, and how often then the tool is one that people named for the task. Measured on the plans
that people annotated for LiveMCPBench: tests/bench/plans.py."""


class Planner:
    """Implements :class:`pml_kit.offers.Suggester`."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services, self._settings = services, settings

    async def suggest(self, intent: str, run: Run, *, limit: int) -> Sequence[Suggestion]:
        """At most two plans, one by search and one by the client's model, best first.

        Of one by search, the confidence is the chance that all its tools are right. It may lack arguments.
        """
        if not intent.strip():
            return []
        found = [await self._by_search(intent, run), await self._by_model(intent, run)]
        made = [suggestion for suggestion in found if suggestion is not None]
        return sorted(made, key=lambda suggestion: -suggestion.confidence)[:limit]

    async def _by_search(self, intent: str, run: Run) -> Suggestion | None:
        past = await together(self._services.store, run.session.principal)
        chosen = await steps(intent, self._services.catalog, run.session, self._settings, past)
        if not chosen:
            return None
        named = list(zip(_ids(chosen), chosen, strict=True))
        plans = [(id, step, filled(step, intent, named[:n])) for n, (id, step) in enumerate(named)]
        tasks = tuple(
            ToolCall(id=id, tool=step.entry.id, arguments=plan.arguments, depends_on=plan.depends_on)
            for id, step, plan in plans
        )
        confidence = confidence_of(chosen)
        lacking = [(id, plan) for id, _, plan in plans if plan.missing]
        return Suggestion(
            workflow=Workflow(id="workflow", tasks=tasks, intent=intent),
            confidence=round(confidence, 3),
            why=_why(plans, lacking),
        )

    async def _by_model(self, intent: str, run: Run) -> Suggestion | None:
        if not self._settings.ask_model:
            return None
        candidates = await self._candidates(intent, run)
        if not candidates:
            return None
        from .sampling import answered, question

        try:
            result = await run.ask("sampling/createMessage", question(intent, candidates, self._settings))
        except (CannotAskError, RpcError):
            return None
        return answered(result, intent, self._services.catalog, self._settings)

    async def _candidates(self, intent: str, run: Run) -> list[CatalogEntry]:
        catalog = self._services.catalog
        found = await catalog.search(intent, limit=self._settings.max_candidates, session=run.session)
        return [entry for match in found if (entry := catalog.get(match.id)) is not None]


def confidence_of(chosen: Sequence[Step]) -> float:
    """The chance that all these tools are right."""
    return math.prod(_chance(step.score) for step in chosen)


def _chance(relevance: float) -> float:
    """How often a tool of this relevance is the right one."""
    return next(chance for least, chance in CHANCES if relevance >= least)


def _ids(chosen: Sequence[Step]) -> list[str]:
    """Names for the tasks: that of the tool, with a number where it is taken."""
    ids: list[str] = []
    for step in chosen:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", step.entry.name)[:50] or "task"
        ids.append(name if name not in ids else f"{name}_{len(ids) + 1}")
    return ids


def _why(plans: Sequence[tuple[str, Step, StepArguments]], lacking: Sequence[tuple[str, StepArguments]]) -> str:
    scores = ", ".join(f"{id} {step.score:.2f}" for id, step, _ in plans)
    text = f"Tools by relevance to the parts of the intent: {scores}."
    if lacking:
        missing = "; ".join(f"{id} needs {', '.join(plan.missing)}" for id, plan in lacking)
        text += f" Arguments are missing: {missing}."
    return text
