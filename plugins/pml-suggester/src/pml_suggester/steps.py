"""Which tools an intent needs, by search: as a whole, clause by clause, and by what went together before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .clauses import clauses

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, Session, ToolId

    from .settings import Settings

OF_A_CLAUSE = 0.8
"""What relevance to a clause counts, beside relevance to the whole intent."""
NEAR_THE_BEST = 0.7
"""Least share of the best tool's relevance that another one of the plan has."""
TOGETHER = 0.1
"""What it adds to a tool's relevance that it always ran in plans with the most relevant one."""
FOR_THE_WHOLE, PER_CLAUSE = 15, 2
"""Tools that compete. These weights were chosen with 45 tasks of LiveMCPBench: tests/bench/plans.py."""


@dataclass(frozen=True, slots=True)
class Step:
    """One tool and what it is for."""

    entry: CatalogEntry
    clause: str
    """The part of the intent that it serves."""
    score: float
    """Its relevance, 0 to 1."""


async def steps(
    intent: str,
    catalog: Catalog,
    session: Session,
    settings: Settings,
    together: Mapping[ToolId, Mapping[ToolId, float]],
) -> list[Step]:
    """The tools, in the order of the clauses that they are for; none when nothing is relevant enough.

    Args:
        intent: What is wanted.
        catalog: Where tools are found.
        session: Who wants it: only tools that it may have.
        settings: Bounds.
        together: Of each tool, the share of past plans with it that had another one, too.
    """
    parts = clauses(intent)
    found: dict[ToolId, Step] = {}
    searches = [(intent, FOR_THE_WHOLE, 1.0), *((part, PER_CLAUSE, OF_A_CLAUSE) for part in parts)]
    for text, limit, weight in searches:
        for match in await catalog.search(text, limit=limit, min_score=settings.least_score, session=session):
            entry, score = catalog.get(match.id), match.score * weight
            known = found.get(match.id)
            if entry is not None and (known is None or score > known.score or known.clause == intent):
                score = score if known is None else max(score, known.score)
                found[match.id] = Step(entry, text, score)
    return _chosen(found, parts, settings, together)


def _chosen(
    found: Mapping[ToolId, Step],
    parts: Sequence[str],
    settings: Settings,
    together: Mapping[ToolId, Mapping[ToolId, float]],
) -> list[Step]:
    best = max(found.values(), key=lambda step: step.score, default=None)
    if best is None:
        return []
    past = together.get(best.entry.id, {})
    raised = [replace(s, score=min(1.0, s.score + TOGETHER * past.get(s.entry.id, 0.0))) for s in found.values()]
    kept = [step for step in raised if step.score >= NEAR_THE_BEST * best.score]
    kept = sorted(kept, key=lambda step: -step.score)[: settings.max_steps]
    places = {part: n for n, part in enumerate(parts)}
    return sorted(kept, key=lambda step: places.get(step.clause, len(parts)))
