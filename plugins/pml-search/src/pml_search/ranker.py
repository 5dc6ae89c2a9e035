"""Rank tools against a query: all evidence in one score, and from that a relevance that can be compared."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from . import action_conflicts, calibration, lexical, structure
from ._numpy import Array, NDArray, np
from .fit import Fit, Fitter
from .index_data import IndexData
from .piece_vectors import PieceVectors, table
from .query import QueryPart, QueryReader

CONSIDERED = 50
"""How many of the first tools are looked at for what they do, and whether they fit."""
ACT_LOSS = np.array((0, 0.22, 0.22, 0.22, 0.1, 0.13), np.float32)
"""What a score loses where another act is wanted, in the order of :data:`pml_search.action_conflicts.CONFLICTS`."""
COVERED, LEAST, TOLD, NAMED, VERB = (np.float32(number) for number in (0.17, 0.12, 0.16, 0.1, 0.08))
"""What a score gains by each member of :class:`pml_search.fit.Fit`."""
RECALLED = 200
"""How many of the first tools the past can put into another order."""
FOR_A_STEP = 10
"""How many tools are looked at for each of several steps."""
STEP_GAIN = np.float32(0.4)
"""What the best tool for one of several steps gains."""
STEP_CONTEXT = np.float32(0.5)
"""What the whole request counts where tools are put in order for one step."""
FEWEST_FOR_SPREAD = 8
"""Tools with a model's vector from which on the model counts."""
LEAST_SPREAD = np.float32(0.07)
"""Standard deviation of the table's cosines where it knows the words of a query: 0.07 to 0.13."""


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
    """Share of the ideal that counts :attr:`words`."""
    spelling: bool = True
    translation: bool = True
    synonyms: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for each tool. Arrays have a row for the query and one for each of its clauses, if not said else."""

    parts: tuple[QueryPart, ...]
    share: Array
    """Share of the highest score that words could give [0 to 1]."""
    cosine: Array
    """Between what query and tool mean [-1 to 1], a model's opinion included."""
    model: Array | None
    """The model's cosine, not a number where it has none; None without a model."""
    server: Array
    """Cosine between query and server, by tool; one row."""
    structure: Array
    """What actions, shapes and values add to the score; one row."""
    total: Array
    """All of it."""
    score: Array
    """All of it in one number; one row."""


class EmbeddingModel(Protocol):
    """What a model has to say about one query."""

    def cosines(self) -> Array:
        """One row for each part of the query, one column for each tool; not a number where there is no vector."""
        ...

    @property
    def weight(self) -> float:
        """What it counts against the table [0 to 1]."""
        ...


class UsageEvidence(Protocol):
    """What the caller's past use of tools says for each tool."""

    def evidence(self, ranker: Ranker, part: QueryPart, best: Sequence[tuple[int, float]]) -> dict[int, float]:
        """What speaks for tools because of what was done before: by place in the index, above 0 to 1.

        Args:
            ranker: Whose tools they are.
            part: The whole query.
            best: Tools that fit best, with their relevance.
        """
        ...


@dataclass(frozen=True, slots=True)
class RankedTools:
    """Tools in the order of their relevance."""

    tools: NDArray[np.int64]
    """Places in the index, best first, ties by id."""
    relevance: Array
    """By place in :attr:`tools`; never rising."""
    probability: Array
    """That the tool is one of those needed."""
    fits: Array
    """Log-odds that the tool fits the request, whatever else there is."""
    evidence: Evidence
    past: dict[int, float] = field(default_factory=dict)
    """By place in the index: how much the past speaks for a tool [0 to 1]."""

    def first(self, limit: int) -> RankedTools:
        """The first of them."""
        return self if limit >= len(self.tools) else self.at(slice(limit))

    def at(self, places: NDArray[np.int64] | slice) -> RankedTools:
        """The tools at ``places``, in this order."""
        return replace(
            self,
            tools=self.tools[places],
            relevance=self.relevance[places],
            probability=self.probability[places],
            fits=self.fits[places],
        )


class Ranker:
    """Searches one index."""

    def __init__(self, data: IndexData, weights: Weights | None = None, *, meaning: PieceVectors | None = None) -> None:
        self.data, self.weights = data, weights or Weights()
        self._table = meaning or table()
        self._reader = QueryReader(
            data.vocabulary,
            self._table,
            translation=self.weights.translation,
            spelling=self.weights.spelling,
            synonyms=self.weights.synonyms,
            splitting=self.weights.clauses > 0,
        )
        self._lexical = lexical.Scorer(data.postings)
        self._fitter = Fitter(data, self._table)
        self._place_of = {id: place for place, id in enumerate(data.ids)}

    def prepare(self, query: str) -> list[QueryPart]:
        """The query and then its clauses; nothing when nothing is asked or there are no tools."""
        return self._reader.prepare(query) if self.data.ids else []

    def search(self, query: str, limit: int, among: Collection[str] | None = None) -> RankedTools | None:
        """The best ``limit`` tools; None when nothing is asked or there is nothing to find.

        Args:
            query: In any language, of any length.
            limit: At least 1.
            among: Ids to choose from; None for all.
        """
        return self.rank(self.prepare(query), limit, among)

    def rank(
        self,
        parts: Sequence[QueryPart],
        limit: int,
        among: Collection[str] | None = None,
        *,
        model: EmbeddingModel | None = None,
        past: UsageEvidence | None = None,
    ) -> RankedTools | None:
        """As :meth:`search`, for a query that was made ready, with what a model and the past have to say."""
        if not parts:
            return None
        allowed = None if among is None else [self._place_of[id] for id in among if id in self._place_of]
        if allowed is not None and not allowed:
            return None
        evidence = self._evidence(parts, model)
        tools = self._order(evidence.score, max(limit, CONSIDERED if past is None else RECALLED), allowed)
        if steps := _steps(parts):
            tools = self._with_steps(evidence, steps, tools, allowed)
        fit = self._fitter.of(parts, tools)
        score = evidence.score[tools] + _gained(fit, 0)
        for row in steps:
            alone = evidence.total[row][tools] + STEP_CONTEXT * evidence.total[0][tools] + _gained(fit, row)
            score[int(np.argmax(alone))] += STEP_GAIN
        order = np.argsort(-score, kind="stable")
        known = evidence.score.copy()
        known[tools] = score
        evidence = replace(evidence, score=known)
        shaped = evidence.structure[tools] >= np.float32(self.weights.shapes or np.inf)
        tools, fits = tools[order], calibration.fit(fit, evidence.cosine[:, tools], shaped)[order]
        probability = calibration.probability(fits)
        found = RankedTools(tools, calibration.relevance(probability), probability, fits, evidence)
        return found.first(limit) if past is None else self._recalled(found, past).first(limit)

    def _with_steps(
        self, evidence: Evidence, steps: Sequence[int], tools: NDArray[np.int64], allowed: Sequence[int] | None
    ) -> NDArray[np.int64]:
        """``tools`` and then those that are best for each step."""
        best = [self._order(evidence.total[row], FOR_A_STEP, allowed) for row in steps]
        return np.array(list(dict.fromkeys(np.concatenate([tools, *best]).tolist())), np.int64)

    def _recalled(self, found: RankedTools, past: UsageEvidence) -> RankedTools:
        """In the order that the past makes of the first tools; the others keep their places."""
        tools = found.tools.tolist()
        speaking = past.evidence(self, found.evidence.parts[0], list(zip(tools, found.relevance.tolist(), strict=True)))
        speaking = {tool: speaking[tool] for tool in tools[:RECALLED] if tool in speaking}
        lifted = found.relevance.copy()
        for place, tool in enumerate(tools[:RECALLED]):
            if tool in speaking:
                lifted[place] = calibration.with_past(float(lifted[place]), speaking[tool])
        head = np.argsort(-lifted[:RECALLED], kind="stable")
        order = np.concatenate((head, np.arange(len(head), len(tools))))
        return replace(found.at(order), relevance=lifted[order], past=speaking)

    def _evidence(self, parts: Sequence[QueryPart], model: EmbeddingModel | None) -> Evidence:
        """What speaks for each tool."""
        weights, data = self.weights, self.data
        share = self._lexical.score([part.words for part in parts])
        vectors = self._table.encode([part.tokens for part in parts])
        cosine = data.vectors.cosines(vectors)
        opinion = None
        if model is not None:
            opinion = model.cosines()
            cosine = mixed(cosine, opinion, model.weight)
        server = (data.server_vectors @ vectors[0]).take(data.server_of)
        total = share * np.float32(weights.words / weights.enough)
        total += np.float32(weights.meaning) * cosine
        total += np.float32(weights.server) * server
        extra = self._structure(parts[0].text, parts[0].tokens)
        total[0] += extra
        score = total[0]
        if len(parts) > 1:
            score = (score + weights.clauses * total[1:].max(axis=0)) / (1 + weights.clauses)
        return Evidence(tuple(parts), share, cosine, opinion, server, extra, total, score)

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


def _gained(fit: Fit, row: int) -> Array:
    """What the fit to one part of a query adds to the score of each tool."""
    words = COVERED * fit.covered[row] + LEAST * fit.least[row] + TOLD * fit.told[row]
    return np.asarray(words + NAMED * fit.named[row] + VERB * fit.verb[row] - ACT_LOSS[fit.conflict[row]], np.float32)


def _steps(parts: Sequence[QueryPart]) -> list[int]:
    """Places of the parts that say what to do one after the other; none when it is one thing that is wanted.

    A request is never taken apart into one clause: a part that is alone is the making of the file it wants.
    """
    steps = [
        place for place, part in enumerate(parts) if place and action_conflicts.asked(part.read_as or part.text)[1]
    ]
    return steps if len(steps) > 1 or len(parts) == 2 else []  # noqa: PLR2004 - the whole and one more


def mixed(cosine: Array, opinion: Array, weight: float) -> Array:
    """The table's cosines together with a model's.

    Models differ in how far their cosines spread, so a model's are first moved to the mean and the spread that the
    table's have for the same query and tools: what scores mean stays as it is. The less the table tells the tools
    apart, because it does not know the words, the more the model counts. Tools without a vector, and catalogs of so few
    tools that a spread says nothing, keep the table's.
    """
    both = ~np.isnan(opinion[0])
    if int(both.sum()) < FEWEST_FOR_SPREAD:
        return cosine
    ours, theirs = cosine[:, both], opinion[:, both]
    spread = ours.std(axis=1, keepdims=True)
    same_scale = (theirs - theirs.mean(axis=1, keepdims=True)) / np.maximum(theirs.std(axis=1, keepdims=True), 1e-6)
    same_scale = np.clip(ours.mean(axis=1, keepdims=True) + same_scale * np.maximum(spread, LEAST_SPREAD), -1, 1)
    knows = (1 - weight) * np.minimum(1, spread / LEAST_SPREAD)
    share = np.float32(weight) / np.maximum(weight + knows, 1e-6)
    out = cosine.copy()
    out[:, both] = (1 - share) * ours + share * same_scale
    return out
