"""The search index in use when no plugin brings one: BM25F (Robertson, Zaragoza, Taylor, CIKM 2004), pure Python."""

from __future__ import annotations

import asyncio
import heapq
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from pml_hookspecs import CatalogEntry, Match, Session, ToolId

SATURATION = 1.2
"""How soon more of the same word stops to count: BM25's ``k1``."""
UNKNOWN = 0.5
"""What a word that no tool has takes from the score, as a share of what the rarest known word would."""
FIELDS = {
    "name": (4.0, 0.3), "server": (2.0, 0.0), "description": (1.0, 0.6), "parameters": (1.0, 0.75), "texts": (0.6, 0.75)
}  # fmt: skip
"""Field to weight, and how much long ones are marked down [0 to 1]. Half as much or twice changes little."""
LONGEST_DESCRIPTION, LONGEST_TEXTS, MOST_ENUM_VALUES, DEEPEST_PARAMETER = 2000, 1500, 20, 2
"""Bounds on what one tool can put into the index [characters, values, levels]."""
STOP_WORDS = (
    "about again all also am an and any are as at be been being both but by can could did do does doing each else etc "
    "for from had has have having he help her here him his how if in into is it its just let like may me might mine "
    "more most must my need no not of on once only onto or other our ours over own please same shall she should so "
    "some such than that the their them then there these they this those to too under us use used using very via want "
    "was we were what when where which who whom whose why will with without would you your yours"
)
STOP = frozenset(STOP_WORDS.split())
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
WORD = re.compile(r"[^\W\d_]+|\d+")
UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
PLURALS = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("che", "ch"), ("shes", "sh"), ("xes", "x"))


MOST_VIEWS = 16
"""Sets of tools that may be found by somebody, of which an index is kept."""


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """An English word without its plural ending; short words and other languages as they are."""
    if len(word) < 4 or not word.isascii():  # noqa: PLR2004 - "bus", "gas"
        return word
    for ending, singular in PLURALS:
        if word.endswith(ending):
            return word.removesuffix(ending) + singular
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def terms(text: str) -> list[str]:
    """What a text is found by: its words, identifiers split, stop words out; in unspaced scripts pairs of letters."""
    found = []
    for word in WORD.findall(CAMEL.sub(" ", unicodedata.normalize("NFKC", text)).casefold()):
        if UNSPACED.search(word):
            found += [word[at : at + 2] for at in range(max(1, len(word) - 1))]
        elif word not in STOP and (len(word) > 1 or word.isdigit()):
            found.append(stem(word))
    return found


def _parameters(schema: Any, depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Names and schemas of the parameters of a tool, and of what is inside them."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    for name, inner in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(inner, Mapping):
            yield name, inner
            if depth < DEEPEST_PARAMETER:
                yield from _parameters(inner, depth + 1)
                yield from _parameters(inner.get("items"), depth + 1)


_Read: TypeAlias = tuple[ToolId, dict[str, dict[str, int]]]
"""A tool, and by field how often it has which terms."""


def _read(entry: CatalogEntry) -> _Read:
    names: list[str] = []
    texts: list[str] = []
    for name, schema in _parameters(entry.input_schema):
        names.append(name)
        texts.append(str(schema.get("description") or ""))
        values = schema.get("enum")
        texts += [str(value) for value in values[:MOST_ENUM_VALUES]] if isinstance(values, list) else []
    fields = {
        "name": f"{entry.name} {entry.definition.get('title') or ''}",
        "server": entry.server,
        "description": entry.description[:LONGEST_DESCRIPTION],
        "parameters": " ".join(names),
        "texts": " ".join(texts)[:LONGEST_TEXTS],
    }
    return entry.id, {name: dict(Counter(terms(text))) for name, text in fields.items()}


class _Postings:
    """An inverted index: each term's tools, with what it adds to their score."""

    def __init__(self, read: Sequence[_Read]) -> None:
        self._ids = [id for id, _ in read]
        frequencies: list[dict[str, float]] = [defaultdict(float) for _ in read]
        for name, (weight, marked_down) in FIELDS.items():
            lengths = [sum(fields[name].values()) for _, fields in read]
            mean = max(1.0, sum(lengths)) / max(1, len(lengths))
            for frequency, length, (_, fields) in zip(frequencies, lengths, read, strict=True):
                share = weight / (1 - marked_down + marked_down * length / mean)
                for term, times in fields[name].items():
                    frequency[term] += share * times
        self._of: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for tool, frequency in enumerate(frequencies):
            for term, value in frequency.items():
                self._of[term].append((tool, value / (SATURATION + value)))
        for term, tools in self._of.items():
            rarity = self._rarity(len(tools))
            self._of[term] = [(tool, rarity * value) for tool, value in tools]
        self._most = {term: max(value for _, value in tools) for term, tools in self._of.items()}
        self._unknown = UNKNOWN * self._rarity(0)

    def _rarity(self, tools: int) -> float:
        return math.log(1 + (len(self._ids) - tools + 0.5) / (tools + 0.5))

    def search(self, query: str, limit: int, min_score: float) -> list[Match]:
        scores: dict[int, float] = defaultdict(float)
        ideal = 0.0
        for term, count in Counter(terms(query)).items():
            weight = 1 + math.log(count)
            ideal += weight * self._most.get(term, self._unknown)
            for tool, value in self._of.get(term, ()):
                scores[tool] += weight * value
        matches = (Match(self._ids[tool], round(math.sqrt(score / ideal), 4)) for tool, score in scores.items())
        return heapq.nsmallest(limit, (m for m in matches if m.score >= min_score), key=lambda m: (-m.score, m.id))


class Bm25Index:
    """Ranks tools by the words they share with a query. Implements :class:`pml_hookspecs.SearchIndex`.

    The score is the square root of a tool's share of the ideal, which is to be as good as the best for each word of the
    query. The root spreads what whole sentences get: on catalogs of MCP servers, thresholds of 0.5, 0.6 and 0.7 keep
    some eight, five and three tools.
    """

    def __init__(self) -> None:
        self._whole = _Whole(())

    async def build(self, entries: Sequence[CatalogEntry], revision: str) -> None:
        """Index ``entries`` in a thread: a large catalog takes a second, in which requests go on."""
        self._whole = await asyncio.to_thread(_Whole, tuple(entries))

    async def search(
        self,
        query: str,
        *,
        limit: int,
        min_score: float,
        among: Collection[ToolId] | None = None,
        session: Session | None = None,
    ) -> Sequence[Match]:
        """At most ``limit`` matches scoring ``min_score`` or more, best first, ties by id. Empty query: none.

        With ``among`` the answer is that of an index of these tools alone: how rare a word is would tell of others.
        That index is made by the first search and kept for the next ones. ``session`` makes no difference.
        """
        postings = await self._whole.of(among)
        return postings.search(query, limit, min_score)


class _Whole:
    """All tools, and indexes of some of them."""

    def __init__(self, entries: Sequence[CatalogEntry]) -> None:
        self._tools = [_read(entry) for entry in entries]
        self._postings = _Postings(self._tools)
        self._ids = frozenset(id for id, _ in self._tools)
        self._some: dict[frozenset[ToolId], asyncio.Future[_Postings]] = {}

    async def of(self, among: Collection[ToolId] | None) -> _Postings:
        """The index of those tools; made in a thread, once for all who ask meanwhile."""
        # A frozenset remembers its hash and is equal to itself at once: the same object costs next to nothing.
        kept = self._ids if among is None else among if isinstance(among, frozenset) else frozenset(among)
        if kept >= self._ids:
            return self._postings
        making = self._some.pop(kept, None)
        if making is None:
            making = asyncio.ensure_future(asyncio.to_thread(self._make, kept))
        self._some[kept] = making
        if len(self._some) > MOST_VIEWS:
            del self._some[next(iter(self._some))]
        return await asyncio.shield(making)

    def _make(self, kept: frozenset[ToolId]) -> _Postings:
        return _Postings([tool for tool in self._tools if tool[0] in kept])
