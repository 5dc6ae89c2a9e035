"""The search index in use where no plugin brings one: tools that share words with the query.

How well a tool fits follows from it and the query alone. So nothing tells of tools that are hidden, no index has to be
made for those who may see only some, and a threshold means the same on every catalog.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from pml_hookspecs import CatalogEntry, Match, Session, ToolId
from pml_kit.mcp.tool_schemas import input_schema
from pml_kit.schema.members import parameters

NAME, SERVER, DESCRIPTION, PARAMETERS = 1.0, 0.75, 0.6, 0.5
"""What a word counts by where a tool has it; where it has it twice, the more."""
WHOLE_NAME = 0.1
"""Share of the score that falls to how much of the name was asked for."""
LONGEST_TEXT, DEEPEST_PARAMETER, MOST_PARAMETERS = 2000, 3, 2000
"""Bounds on what is read of one tool, its parameters' texts alike [characters, levels, parameters]."""
STOP_WORDS = (
    "about again all also am an and any are as at be been being but by can could did do does each for from had has "
    "have he her here him his how if in into is it its just let like may me might mine more most must my no not of on "
    "once only or other our over own please she should so some such than that the their them then there these they "
    "this to too under us use using very via want was we were what when where which who why will with would you your"
)
STOP = frozenset(STOP_WORDS.split())
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
WORD = re.compile(r"[^\W\d_]+|\d+")
UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
PLURALS = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("che", "ch"), ("shes", "sh"), ("xes", "x"))
Words: TypeAlias = Mapping[str, Sequence[tuple[ToolId, float]]]
"""By term, the tools that have it and what it counts there."""


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


class WordIndex:
    """Implements :class:`pml_hookspecs.SearchIndex`.

    The score is the square root of the share of the query's words that a tool has, each by where it has it, and of how
    much of its name was asked for: 1 for a tool that is called what is searched for. The root spreads what whole
    sentences get.
    """

    def __init__(self) -> None:
        self._words: Words = {}
        self._name_sizes: Mapping[ToolId, int] = {}

    async def build(self, entries: Sequence[CatalogEntry], revision: str) -> None:
        """Index ``entries`` in a thread: a large catalog takes a while, in which requests go on."""
        self._words, self._name_sizes = await asyncio.to_thread(_read_all, tuple(entries))

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

        ``among`` leaves out the others and changes no score; ``session`` makes no difference.
        """
        wanted = dict.fromkeys(terms(query))
        shares: dict[ToolId, float] = defaultdict(float)
        named: dict[ToolId, int] = defaultdict(int)
        for term in wanted:
            for tool, counts in self._words.get(term, ()):
                shares[tool] += counts
                named[tool] += counts == NAME
        may = shares if among is None else among if isinstance(among, (frozenset, set)) else frozenset(among)
        matches = (
            Match(tool, self._score(share / len(wanted), named[tool] / self._name_sizes[tool]))
            for tool, share in shares.items()
            if tool in may
        )
        return heapq.nsmallest(limit, (m for m in matches if m.score >= min_score), key=lambda m: (-m.score, m.id))

    @staticmethod
    def _score(share: float, of_name: float) -> float:
        return round(math.sqrt((1 - WHOLE_NAME) * share + WHOLE_NAME * of_name), 4)


def _read_all(entries: Sequence[CatalogEntry]) -> tuple[Words, Mapping[ToolId, int]]:
    words: dict[str, list[tuple[ToolId, float]]] = defaultdict(list)
    sizes: dict[ToolId, int] = {}
    for entry in entries:
        counts = words_of(entry)
        sizes[entry.id] = max(1, sum(count == NAME for count in counts.values()))
        for term, count in counts.items():
            words[term].append((entry.id, count))
    return words, sizes


def words_of(entry: CatalogEntry) -> Mapping[str, float]:
    """What a tool is found by, and what each word of it counts."""
    named = parameters(input_schema(entry), deepest=DEEPEST_PARAMETER, most=MOST_PARAMETERS)
    texts = " ".join(f"{name} {of.get('description') or ''}" for name, of in named)[:LONGEST_TEXT]
    title = entry.definition.get("title") or ""
    fields = (
        (PARAMETERS, texts),
        (DESCRIPTION, f"{title} {entry.description[:LONGEST_TEXT]}"),
        (SERVER, entry.server),
        (NAME, entry.name),
    )
    return {term: counts for counts, text in fields for term in terms(text)}
