"""A search that forgives wrong spelling: a tool is as good as its most similar word. Takes the place of the search that
is installed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any

from pml_hookspecs import CatalogEntry, Match, Offer, Session, ToolId, hookimpl
from pml_kit.offers import SEARCH

WORD = re.compile(r"[a-z0-9]+")


@hookimpl
def pml_offers() -> Iterable[Offer[Any]]:
    return [Offer(SEARCH, Spelling())]


class Spelling:
    def __init__(self) -> None:
        self._words: dict[ToolId, set[str]] = {}

    async def build(self, entries: Sequence[CatalogEntry], revision: str) -> None:
        self._words = {entry.id: words(f"{entry.name} {entry.description}") for entry in entries}

    async def search(
        self,
        query: str,
        *,
        limit: int,
        min_score: float,
        among: Collection[ToolId] | None = None,
        session: Session | None = None,
    ) -> Sequence[Match]:
        asked = words(query)
        ids = self._words.keys() if among is None else among
        scored = [Match(id, score(asked, self._words.get(id, set()))) for id in ids] if asked else []
        good = [match for match in scored if match.score > 0 and match.score >= min_score]
        return sorted(good, key=lambda match: (-match.score, match.id))[:limit]


def words(text: str) -> set[str]:
    return set(WORD.findall(text.lower()))


def score(asked: set[str], known: set[str]) -> float:
    """Mean over the words that are asked for, of how alike the most similar known word is."""
    return sum(max((alike(one, other) for other in known), default=0.0) for one in asked) / len(asked)


def alike(one: str, other: str) -> float:
    ratio = SequenceMatcher(None, one, other).ratio()
    return ratio if ratio >= 0.7 else 0.0  # noqa: PLR2004 - less than that is another word
