"""How good a ranking is (relevance is yes or no; of tools that replace each other, one is enough)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .queries import Query


def recall(ranked: Sequence[str], query: Query, at: int | None = None) -> float:
    """Share of the tools needed that are among the first ``at``; of all ranked ones without."""
    first = set(ranked[:at])
    return sum(not first.isdisjoint(group) for group in query.gold) / len(query.gold)


def hit(ranked: Sequence[str], query: Query) -> float:
    """1 if the first tool is one of those needed, else 0."""
    return float(bool(ranked) and any(ranked[0] in group for group in query.gold))


def ndcg(ranked: Sequence[str], query: Query, at: int) -> float:
    """Normalised discounted cumulative gain of the first ``at``; each tool needed counts once."""
    left, gained = list(query.gold), 0.0
    for place, tool in enumerate(ranked[:at]):
        found = next((group for group in left if tool in group), None)
        if found is not None:
            left.remove(found)
            gained += 1 / math.log2(place + 2)
    ideal = sum(1 / math.log2(place + 2) for place in range(min(at, len(query.gold))))
    return gained / ideal


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of all does not exceed; 0 for none."""
    return sorted(values)[min(len(values) - 1, math.ceil(share * len(values)) - 1)] if values else 0.0
