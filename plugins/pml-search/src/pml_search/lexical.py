"""Words in common: BM25F (Robertson, Zaragoza, Taylor, CIKM 2004) over the fields of a tool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ._numpy import Array, NDArray, np

SATURATION = 1.5
"""How soon more of the same word stops to count: BM25's ``k1``."""
FIELDS = ("name", "server", "first", "rest", "parameters", "texts")
WEIGHTS = np.array((4.0, 2.0, 1.0, 1.0, 1.0, 0.6), np.float32)
MARKED_DOWN = np.array((0.3, 0.0, 0.5, 0.75, 0.75, 0.75), np.float32)
"""By field: how much a word counts, and how much long texts are marked down [0 to 1]."""
UNKNOWN = 0.5
"""What a word that no tool has takes from the score, as a share of what the rarest known word would."""
MOST_MERGED = 500
"""Groups of words whose tools are remembered."""

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Postings:
    """An inverted index: for each word the tools that have it, and what it adds to their score."""

    tools: Ints
    """Grouped by word, ascending within each."""
    gains: Array
    starts: NDArray[np.int64]
    """Where each word's group begins; one more at the end."""
    rarity: Array
    """By word: what it is worth at most, before saturation."""
    size: int
    """Tools in all."""

    @property
    def unknown(self) -> float:
        """What a word that no tool has would be worth."""
        return UNKNOWN * float(np.log(1 + (self.size + 0.5) / 0.5))

    def of(self, word: int) -> tuple[Ints, Array]:
        """The tools that have ``word``, and what each gains."""
        group = slice(self.starts[word], self.starts[word + 1])
        return self.tools[group], self.gains[group]


def index(
    tools: Ints, fields: NDArray[np.uint8], terms: Ints, times: NDArray[np.uint8], *, size: int, words: int
) -> Postings:
    """Build postings from entries, one for each tool, field and word.

    Args:
        tools: Whose entry it is, ascending.
        fields: Place in :data:`FIELDS`.
        terms: Place in a vocabulary.
        times: How often the tool has the word in the field.
        size: Tools in all.
        words: Words in the vocabulary.
    """
    size = max(1, size)
    place = fields.astype(np.int32) * np.int32(size) + tools
    lengths = np.bincount(place, weights=times, minlength=len(FIELDS) * size).astype(np.float32)
    mean = np.maximum(lengths.reshape(len(FIELDS), size).mean(axis=1), 1e-9)
    relative = lengths[place]
    relative /= mean[fields]
    del place
    marked = MARKED_DOWN[fields]
    relative -= 1
    relative *= marked
    relative += 1
    weighted = times * WEIGHTS[fields]
    weighted /= relative
    del marked, relative
    # Entries come by tool, so a stable order by word is one by word and tool.
    order = np.argsort(terms, kind="stable")
    word, tool = terms[order], tools[order]
    first = np.flatnonzero((np.diff(word, prepend=-1) != 0) | (np.diff(tool, prepend=-1) != 0))
    frequency = np.add.reduceat(weighted[order], first) if len(first) else np.empty(0, np.float32)
    del order, weighted
    word, tool = word[first], tool[first]
    having = np.bincount(word, minlength=words)
    rarity = np.log(1 + (size - having + 0.5) / (having + 0.5)).astype(np.float32)
    gains = frequency * (1 + SATURATION) / (SATURATION + frequency) * rarity[word]
    starts = np.concatenate(([0], np.cumsum(having)))
    return Postings(tool.astype(np.int32), gains.astype(np.float32), starts, rarity, size)


@dataclass(frozen=True, slots=True)
class QueryWord:
    """One word of a query, with the words of the catalog that it may mean."""

    word: str
    """The word as it stands in the query."""
    weight: float
    """How much it counts, before rarity."""
    found: tuple[tuple[int, float], ...]
    """Words of the vocabulary that it may mean, best first, each with how well it fits [0 to 1]."""

    def worth(self, postings: Postings) -> float:
        """What a tool would gain that has it as often as one likes."""
        rarity = float(postings.rarity[self.found[0][0]]) if self.found else postings.unknown
        return self.weight * (1 + SATURATION) * rarity


class Scorer:
    """Scores tools by the words that they share with a query."""

    def __init__(self, postings: Postings) -> None:
        self._postings = postings
        self._merged: dict[tuple[tuple[int, float], ...], tuple[Ints, Array]] = {}

    def score(self, queries: Sequence[Sequence[QueryWord]]) -> Array:
        """Each tool's share of the ideal, which is to have every word as often as one likes [0 to 1]; a row a query."""
        size = self._postings.size
        ideal = np.full((len(queries), 1), 1e-9)
        having: list[Ints] = []
        adding: list[Array] = []
        ends = [0]
        for row, query in enumerate(queries):
            for sought in query:
                ideal[row] += sought.worth(self._postings)
                tools, gains = self._gains(sought.found)
                having.append(tools)
                adding.append(gains if sought.weight == 1 else gains * np.float32(sought.weight))
            ends.append(sum(map(len, having[-len(query) :])) if query else 0)
        if not having:
            return np.zeros((len(queries), size), np.float32)
        # One count over all words of all queries is faster than adding word by word.
        places = np.concatenate(having) + np.repeat(np.arange(len(queries)) * size, ends[1:])
        total = np.bincount(places, np.concatenate(adding), len(queries) * size).reshape(len(queries), size)
        return np.asarray(total / ideal, np.float32)

    def _gains(self, found: tuple[tuple[int, float], ...]) -> tuple[Ints, Array]:
        """The tools that have one of these words, each with what the best of them adds."""
        if len(found) == 1 and found[0][1] == 1:
            return self._postings.of(found[0][0])
        merged = self._merged.get(found)
        if merged is None:
            if len(self._merged) >= MOST_MERGED:
                self._merged.clear()
            best = np.zeros(self._postings.size, np.float32)
            for word, fit in found:
                tools, gains = self._postings.of(word)
                best[tools] = np.maximum(best[tools], gains * np.float32(fit))
            having = np.flatnonzero(best).astype(np.int32)
            merged = self._merged[found] = (having, best[having])
        return merged
