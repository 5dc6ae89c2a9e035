"""Rank tools against a query: all evidence in one score, and from that a relevance that can be compared."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from . import calibration, lexical, structure
from ._numpy import Array, NDArray, np
from .index_data import IndexData
from .query import Part, Reader, clean
from .table import Table, table


@dataclass(frozen=True, slots=True)
class Weights:
    """What each kind of evidence counts. Zero switches it off."""

    words: float = 1.0
    meaning: float = 1.8
    server: float = 0.3
    actions: float = 0.06
    shapes: float = 0.3
    values: float = 0.05
    clauses: float = 0.2
    """What the best clause counts, against the whole query."""
    enough: float = 0.6
    """Share of the ideal from which words count fully: where little fits, the best of it is not good."""
    least: float = 0.2
    """What words count at least."""
    spelling: bool = True
    translation: bool = True
    synonyms: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for each tool. Arrays have a row for the query and one for each of its clauses, if not said else."""

    parts: tuple[Part, ...]
    share: Array
    """Of the ideal that words could give [0 to 1]."""
    cosine: Array
    """Between what query and tool mean [-1 to 1]."""
    server: Array
    """Cosine between query and server, by tool; one row."""
    structure: Array
    """What actions, shapes and values add to the score; one row."""
    total: Array
    """All of it."""
    score: Array
    """All of it in one number; one row."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Tools in order."""

    tools: NDArray[np.int64]
    """Places in the index, best first, ties by id."""
    relevance: Array
    """By place in :attr:`tools`; never rising."""
    probability: Array
    """That the tool is one of those needed."""
    support: float
    """How much of the relevance is left because of how little anything fits [0 to 1]."""
    evidence: Evidence


class Ranker:
    """Searches one index."""

    def __init__(self, data: IndexData, weights: Weights | None = None, *, meaning: Table | None = None) -> None:
        self.data, self.weights = data, weights or Weights()
        self._table = meaning or table()
        self._reader = Reader(
            data.vocabulary,
            self._table,
            translation=self.weights.translation,
            spelling=self.weights.spelling,
            synonyms=self.weights.synonyms,
            splitting=self.weights.clauses > 0,
        )
        self._lexical = lexical.Scorer(data.postings)
        self._place_of = {id: place for place, id in enumerate(data.ids)}

    def search(self, query: str, limit: int, among: Collection[str] | None = None) -> Ranked | None:
        """The best ``limit`` tools; None when nothing is asked or there is nothing to find.

        Args:
            query: In any language, of any length.
            limit: At least 1.
            among: Ids to choose from, and to measure the relevance against; None for all.
        """
        evidence = self.evidence(query)
        if evidence is None:
            return None
        allowed = None if among is None else [self._place_of[id] for id in among if id in self._place_of]
        if allowed is not None and not allowed:
            return None
        tools = self._order(evidence.score, limit, allowed)
        chosen = slice(None) if allowed is None else np.array(allowed)
        score = evidence.score[tools]
        probability = calibration.probability(score, float(evidence.cosine[:, chosen].max()))
        support = calibration.support(float(evidence.cosine[:, chosen].max()), float(evidence.share[:, chosen].max()))
        return Ranked(tools, calibration.relevance(probability) * np.float32(support), probability, support, evidence)

    def evidence(self, query: str) -> Evidence | None:
        """What speaks for each tool; None when nothing is asked or there are no tools."""
        parts = self._reader.prepare(query) if self.data.ids else []
        if not parts:
            return None
        weights, data = self.weights, self.data
        share = np.stack([self._lexical.score(part.words) for part in parts])
        vectors = self._table.encode([part.tokens for part in parts])
        # The other way round, the product takes three times as long.
        cosine = np.ascontiguousarray((data.vectors @ vectors.T).T)
        server = (data.server_vectors @ vectors[0]).take(data.server_of)
        best = share.max(axis=1, keepdims=True)
        counts = weights.words * np.clip(best / weights.enough, weights.least, 1)
        total = counts * share / (best + 1e-9) + weights.meaning * cosine + weights.server * server
        extra = self._structure(clean(query), parts[0].tokens)
        total[0] += extra
        score = total[0]
        if len(parts) > 1:
            score = (score + weights.clauses * total[1:].max(axis=0)) / (1 + weights.clauses)
        return Evidence(tuple(parts), share, cosine, server, extra, total, score)

    def _structure(self, query: str, words: Sequence[str]) -> Array:
        bits, weights = self.data.rows.bits, self.weights
        extra = np.zeros(len(bits), np.float32)
        if weights.actions and (asked := structure.action_bits(words[:12])):
            extra += np.float32(weights.actions) * ((bits[:, 0] & asked) != 0)
        taken, given = structure.asked_shapes(query)
        for column, shapes in ((1, taken), (2, given)):
            if shapes:
                extra += np.float32(weights.shapes) * ((bits[:, column] & shapes) == shapes)
        if weights.values and (values := structure.given_shapes(query)):
            extra += np.float32(weights.values) * ((bits[:, 1] & values) != 0)
        return extra

    def _order(self, score: Array, limit: int, allowed: Sequence[int] | None) -> NDArray[np.int64]:
        places = np.arange(len(score)) if allowed is None else np.array(allowed)
        values = score[places]
        if limit < len(values):
            edge = np.partition(values, len(values) - limit)[len(values) - limit]
            places = places[values >= edge]
        ids = self.data.ids
        ranked = sorted(places.tolist(), key=lambda place: (-float(score[place]), ids[place]))
        return np.array(ranked[:limit], np.int64)
