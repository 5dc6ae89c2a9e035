"""How well one tool fits one request, by these two alone: no other tool of the catalog has a say in it.

What ranks a catalog is relative: how rare a word is there, which of its tools is the best. So it finds the best, and
does not know whether the best is good. Here each word of the request is looked for in the tool: as it stands, or
something like it, or else by how close the closest of the tool's words comes in meaning; words count by the length of
their vectors, which is small for those that say little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import action_conflicts
from ._numpy import Array, NDArray, np
from .index_data import IndexData
from .lexical import FIELDS
from .piece_vectors import SIZE, PieceVectors, tokens
from .query import QueryPart
from .vectors import PackedVectors, packed
from .words import ENDINGS, STOP, split, stem

MOST_WORDS = 60
"""Words of a request that are looked for."""
LONG = 8
"""Words from which on a part is long."""
MEANT = 0.7
"""How well a word is covered by what the phrase that it is part of stands for."""
MOST_OBJECTS = 4
"""Words besides the verb that say what is acted on."""
SHORT, UNLIKE = 2, 0.3
"""Words of what is to be made up to which the last names it, and how well it is covered where it is something else."""
FOREIGN = 0.5
"""How well a word is covered at most by tools that have nothing to do with it [0 to 1]."""
UNNAMED = frozenset(("something", "anything", "everything", "stuff", "thing", "things"))
UNNAMED_TOOL = 0.6
"""How well a name is covered that says nothing but verbs."""
ASIDE = 0.8
"""What a word counts that the tool has neither in its name nor its server's nor its first sentence."""
NAME, SERVER, HEADS = FIELDS.index("name"), FIELDS.index("server"), FIELDS.index("first")


@dataclass(frozen=True, slots=True)
class Fit:
    """Of each part of a request (rows) and each tool (columns)."""

    covered: Array
    """Share of the words that the tool has, or ones that are as good, or nearly so [0 to 1]."""
    least: Array
    """The least covered of the words that say what is acted on [0 to 1]."""
    told: Array
    """How well the tool's own words cover the one that says what is acted on [0 to 1]; 1 where none does."""
    named: Array
    """How well the request covers what the tool's name says besides verbs and the server [0 to 1]."""
    verb: Array
    """How well the tool's name covers the verb of the request [0 to 1]; 1 where there is none."""
    conflict: NDArray[np.int64]
    """Places in :data:`pml_search.action_conflicts.CONFLICTS`."""
    length: Array
    """How many words the part has that say something, up to :data:`LONG`; one column."""


@dataclass(frozen=True, slots=True)
class _WordCoverage:
    """How well tools (columns) cover words of a request (rows), and what else is known of the tools."""

    any: Array
    own: Array
    """Without the server's name."""
    name: Array
    """By the tool's name alone."""
    close: Array
    """How close the words of the tools (columns), each once, come to those of the request."""
    entries: NDArray[np.int64]
    """Of the words in tools' names that are no verbs and not in the server's name: the column of :attr:`close`."""
    owners: NDArray[np.int64]
    """The place of the tool that each belongs to."""
    done: list[tuple[int, int]]
    """By tool: acts in its name, and in its name and first sentence."""

    def covered_names(self, rows: Sequence[int]) -> Array:
        """How well these words cover what each tool's name says [0 to 1]."""
        size = len(self.done)
        total = np.bincount(self.owners, self.close[rows].max(axis=0)[self.entries], size)
        counted = np.bincount(self.owners, minlength=size)
        return np.asarray(np.where(counted > 0, total / np.maximum(counted, 1), UNNAMED_TOOL), np.float32)


class Fitter:
    """Looks requests' words up in the tools of one index."""

    def __init__(self, data: IndexData, table: PieceVectors) -> None:
        self._data, self._table = data, table
        self._ends = np.cumsum(data.rows.sizes)
        self._acts = action_conflicts.by_place(data.vocabulary.places)
        self._verbs = np.array(list(self._acts), np.int32)
        self._terms = list(data.vocabulary.places)
        # Rows are filled when they are needed; what is not touched takes no memory.
        self._meant = PackedVectors(np.zeros((len(self._terms), SIZE), np.int8), np.zeros(len(self._terms), np.float32))

    def of(self, parts: Sequence[QueryPart], tools: NDArray[np.int64]) -> Fit:
        """How well ``tools``, places in the index, fit each part."""
        said = [_words(part) for part in parts]
        words = list(dict.fromkeys(word for some in said for word in some))[:MOST_WORDS]
        place = {word: row for row, word in enumerate(words)}
        directions, weights = self._table.read([tokens(word) for word in words])
        found = self._looked_up(parts, place, directions, tools)
        made = [self._part(part, some, place, weights, found) for part, some in zip(parts, said, strict=True)]
        return Fit(*(np.stack(column) for column in zip(*made, strict=True)))

    def _part(
        self, part: QueryPart, words: Sequence[str], place: dict[str, int], weights: Array, found: _WordCoverage
    ) -> tuple[NDArray[Any], ...]:
        """What :class:`Fit` has of one part, in its order."""
        text = part.read_as or part.text
        verb, wanted = action_conflicts.asked(text)
        size = len(found.done)
        covered, least = np.zeros(size, np.float32), np.ones(size, np.float32)
        told, named, doing = np.ones((3, size), np.float32)
        conflict = np.array([action_conflicts.conflict(wanted, *done) for done in found.done], np.int64)
        rows = [place[word] for word in words if word in place]
        objects = [place[word] for word in words if word in place and word not in (verb, *UNNAMED)][:MOST_OBJECTS]
        if rows:
            # Added up word by word, so that it is the same whatever tools stand beside.
            covered = (found.any[rows] * (weights[rows] / weights[rows].sum())[:, None]).sum(axis=0)
            named = found.covered_names(rows)
        if (head := action_conflicts.head(text, verb, ordered=not part.read_as)) in place:
            told = found.own[place[head]]
        if verb in place:
            doing = found.name[place[verb]]
        if objects:
            # A server's name is that of all its tools: something must be in the tool itself.
            least = np.minimum(found.any[objects].min(axis=0), found.own[objects].max(axis=0))
        if objects and wanted & action_conflicts.DESTROYING:
            # What destroys something else must not be taken for what destroys this.
            conflict[found.any[objects].max(axis=0) < FOREIGN] = 1
        elif 0 < len(objects) <= SHORT and wanted & action_conflicts.CREATING:
            # What is made is named last: a tool for branches creates no "github issue".
            conflict[found.any[objects[-1]] < UNLIKE] = 1
        return covered, least, told, named, doing, conflict, np.array([min(len(rows), LONG)], np.float32)

    def _looked_up(
        self, parts: Sequence[QueryPart], place: dict[str, int], directions: Array, tools: NDArray[np.int64]
    ) -> _WordCoverage:
        """How well each tool has each word, or one close to it."""
        rows = self._data.rows
        sizes = rows.sizes[tools]
        starts = np.cumsum(sizes) - sizes
        entries = np.repeat(self._ends[tools] - sizes - starts, sizes) + np.arange(int(sizes.sum()))
        words, fields = rows.words[entries], rows.fields[entries]
        known, inverse = np.unique(words, return_inverse=True)
        exact = np.zeros((len(place), len(known)), np.float32)
        spelt = {stem(word): row for word, row in place.items()} | place
        for sought in (sought for part in parts for sought in part.words):
            # A phrase that stands for words of tools covers all that it is made of.
            said = [spelt[word] for word in sought.word.split() if word in spelt]
            for word, how_well in sought.found if said else ():
                at = int(np.searchsorted(known, word))
                if at < len(known) and known[at] == word:
                    exact[said, at] = np.maximum(
                        exact[said, at], max(how_well, FOREIGN) if sought.word in place else MEANT
                    )
        close = np.maximum(exact, self._cosines(directions, known))
        counts = np.where(fields <= HEADS, 1, ASIDE).astype(np.float32)
        having = close[:, inverse] * counts
        naming, owners = self._naming(words, fields, sizes)
        return _WordCoverage(
            any=_best(having, starts, sizes),
            own=_best(having * (fields != SERVER), starts, sizes),
            name=_best(having * (fields == NAME), starts, sizes),
            close=close,
            entries=inverse[naming],
            owners=owners,
            done=self._done(words, fields, sizes),
        )

    def _naming(
        self, words: NDArray[np.int32], fields: NDArray[np.uint8], sizes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The entries that say what a tool's name says besides verbs and the server, and whose they are."""
        owners = np.repeat(np.arange(len(sizes)), sizes)
        keys = owners * len(self._terms) + words
        saying = (fields == NAME) & ~np.isin(words, self._verbs) & ~np.isin(keys, keys[fields == SERVER])
        naming = np.flatnonzero(saying)
        return naming, owners[naming]

    def _done(
        self, words: NDArray[np.int32], fields: NDArray[np.uint8], sizes: NDArray[np.int64]
    ) -> list[tuple[int, int]]:
        """By tool the acts in its name, and those in its name and first sentence."""
        done = [[0, 0] for _ in sizes]
        acting = np.flatnonzero(((fields == NAME) | (fields == HEADS)) & np.isin(words, self._verbs))
        owners = np.repeat(np.arange(len(sizes)), sizes)[acting]
        for owner, word, field in zip(owners.tolist(), words[acting].tolist(), fields[acting].tolist(), strict=True):
            done[owner][1] |= self._acts[word]
            if field == NAME:
                done[owner][0] |= self._acts[word]
        return [(named, told) for named, told in done]

    def _cosines(self, directions: Array, words: NDArray[np.int32]) -> Array:
        """How close words of the catalog are to each direction; the same to the last bit whatever else is asked."""
        missing = words[self._meant.scales[words] == 0]
        if len(missing):
            spelt = [tokens(spelling(self._terms[word], self._table)) for word in missing.tolist()]
            some = packed(self._table.encode(spelt))
            self._meant.numbers[missing], self._meant.scales[missing] = some.numbers, some.scales
        return self._meant.chosen(words.astype(np.int64)).cosines(directions)


def spelling(term: str, table: PieceVectors) -> str:
    """A common English word that has this stem; ``term`` itself if there is none.

    Not as a tool spells it, which would tell of tools that are hidden from whoever asks.
    """
    spelt = (term + ending for ending in ("", "e", "y", *ENDINGS, "s"))
    return next((word for word in spelt if word in table and stem(word) == term), term)


def _words(part: QueryPart) -> list[str]:
    """The words of a request that say something, each once."""
    words = dict.fromkeys(split(part.read_as or part.text))
    return [word for word in words if word not in STOP and (len(word) > 1 or word.isdigit())]


def _best(values: Array, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> Array:
    """The greatest value of each tool's words, by row; zero for a tool without words."""
    out = np.zeros((len(values), len(sizes)), np.float32)
    having = sizes > 0
    if having.any() and len(values):
        out[:, having] = np.maximum.reduceat(values, starts[having], axis=1)
    return out
