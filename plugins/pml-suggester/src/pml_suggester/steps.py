"""Which tools an intent needs, by search: the one that fits each of its clauses best.

A tool that changes something is only chosen for a clause that names that very act.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .actions import is_asked_for
from .clauses import clauses

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, CatalogEntry, Session, ToolId

    from .settings import Settings

TOGETHER = 0.1
"""What it adds to a tool's relevance that it always ran in plans with one that is chosen already."""
PER_CLAUSE = 8
"""Tools that compete for a clause."""


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
    chosen: list[Step] = []
    for part in clauses(intent)[: settings.max_steps]:
        matches = await catalog.search(part, limit=PER_CLAUSE, min_score=settings.least_score, session=session)
        found = ((catalog.get(match.id), match.score) for match in matches)
        taken = [step.entry.id for step in chosen]
        fits = [
            Step(entry, part, min(1.0, score + TOGETHER * _shared(entry.id, taken, together)))
            for entry, score in found
            if entry is not None and entry.id not in taken and is_asked_for(entry, part)
        ]
        chosen += [max(fits, key=lambda step: step.score)] if fits else []
    return chosen


def _shared(tool: ToolId, chosen: Sequence[ToolId], together: Mapping[ToolId, Mapping[ToolId, float]]) -> float:
    """The largest share of past plans with one of ``chosen`` that had ``tool``, too."""
    return max((together.get(one, {}).get(tool, 0.0) for one in chosen), default=0.0)
