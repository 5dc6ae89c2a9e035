"""From a query to what is looked for: translated, corrected, taken apart, with what else may be meant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from . import structure
from .clauses import clauses
from .languages import Languages, languages
from .lexical import QueryWord
from .piece_vectors import PieceVectors, tokens
from .rows import Vocabulary
from .spelling import Speller
from .thesaurus import Thesaurus, thesaurus
from .words import STOP, accented, split, stem, terms_of

LONGEST_QUERY = 4000
"""What of a query is read [characters]."""
MOST_WORDS = 300
MOST_REMEMBERED = 5000
"""Words of earlier queries for which it is known what to look for."""
SYNONYM = 0.45
"""How well a synonym fits, against the word itself."""
PHRASE = 1.0
"""What a phrase counts that stands for words of tools: its words by themselves mean something else."""
HALF = 0.7
"""What each half of a compound counts that no tool has as one word."""
SHORTEST_HALF = 3
"""Letters."""


@dataclass(frozen=True, slots=True)
class QueryPart:
    """A query, or one of its clauses, made ready."""

    text: str
    words: tuple[QueryWord, ...]
    tokens: tuple[str, ...]
    """What its meaning is made of."""
    read_as: str = ""
    """The query in other words, if it was translated or corrected."""


class QueryReader:
    """Makes queries ready for one catalog.

    Args:
        vocabulary: The words of the catalog.
        table: Knows common English words.
        translation: Whether to read other languages.
        spelling: Whether to correct misspelt words.
        synonyms: Whether to look for what else may be meant.
        splitting: Whether to take long requests apart.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        table: PieceVectors,
        *,
        translation: bool = True,
        spelling: bool = True,
        synonyms: bool = True,
        splitting: bool = True,
    ) -> None:
        self._vocabulary, self._table, self._splitting = vocabulary, table, splitting
        self._languages: Languages | None = languages() if translation else None
        self._thesaurus: Thesaurus | None = thesaurus() if synonyms else None
        self._remembered: dict[tuple[str, str], list[QueryWord]] = {}
        self._speller: Speller | None = Speller(vocabulary.spellings) if spelling else None

    def prepare(self, query: str) -> list[QueryPart]:
        """The query and then its clauses; nothing when the query has no words."""
        text = clean(query)
        words = split(text)[:MOST_WORDS]
        foreign = self._languages is not None and self._languages.is_foreign(
            words, self._table.__contains__, accented(text)
        )
        whole = self._part(text, words, foreign=foreign)
        if not whole.words:
            return []
        some = [self._part(part, split(part), foreign=foreign) for part in clauses(text)] if self._splitting else []
        if self._splitting and (making := structure.file_to_make(text)):
            some.append(self._part(making, split(making), foreign=False))
        return [whole, *(part for part in some if part.words)]

    def _part(self, text: str, words: Sequence[str], *, foreign: bool) -> QueryPart:
        pairs = [(word, word) for word in words]
        if self._languages is not None and (foreign or not text.isascii()):
            pairs = self._languages.translate(words, self._table.__contains__, foreign=foreign)
        sought: list[QueryWord] = []
        meant: list[str] = []
        for word, meaning in pairs:
            found = self._remembered.get((word, meaning))
            if found is None:
                if len(self._remembered) >= MOST_REMEMBERED:
                    self._remembered.clear()
                found = self._remembered[word, meaning] = self._sought(word, meaning)
            sought += found
            meant.append(self._corrected(meaning, found))
        read_as = " ".join(filter(None, meant)) if meant != list(words) else ""
        spelt_out = [word for some in meant for word in some.split()]
        sought += self._joined(spelt_out)
        pieces = tokens(read_as or text)
        if self._thesaurus is not None:
            pieces += self._thesaurus.written_out(spelt_out)
        return QueryPart(text, self._merged(sought, spelt_out), tuple(pieces), read_as)

    def _sought(self, word: str, meaning: str) -> list[QueryWord]:
        """What to look for in the index for one word of a query."""
        places = self._vocabulary.places
        found: list[QueryWord] = []
        for part in meaning.split():
            for number, term in enumerate(terms_of(part)):
                if (place := places.get(term)) is not None:
                    found.append(QueryWord(part, 1.0, ((place, 1.0),)))
                elif number == 0 and (halves := self._halves(part)):
                    found += halves
                else:
                    found.append(QueryWord(part, 1.0, self._near(part) if number == 0 else ()))
        if len(found) > 1 and " " in meaning:
            # A word that means one of several counts as one: by the best of them.
            return [QueryWord(word, 1.0, tuple(dict.fromkeys(option for one in found for option in one.found)))]
        return found

    def _joined(self, words: Sequence[str]) -> list[QueryWord]:
        """Words of the catalog that the query writes as two: ``key vault`` for ``keyvault``."""
        places = self._vocabulary.places
        pairs = [
            first + second
            for first, second in pairwise(words)
            if len(first) > 1 and len(second) > 1 and not STOP.intersection((first, second)) and first.isalpha()
        ]
        return [QueryWord(pair, 1.0, ((places[term], 1.0),)) for pair in pairs if (term := stem(pair)) in places]

    def _halves(self, word: str) -> list[QueryWord]:
        """The two words of the catalog that the query writes as one: ``keyvault`` for ``key vault``."""
        places = self._vocabulary.places
        for at in range(SHORTEST_HALF, 0 if word in self._table else len(word) - SHORTEST_HALF + 1):
            halves = (word[:at], word[at:])
            terms = tuple(map(stem, halves))
            if all(term in places for term in terms) and all(half in self._table for half in halves):
                return [QueryWord(half, HALF, ((places[term], 1.0),)) for half, term in zip(halves, terms, strict=True)]
        return []

    def _near(self, word: str) -> tuple[tuple[int, float], ...]:
        """Words of the catalog that a misspelt word may mean; none for a common English word."""
        if self._speller is None or word in self._table:
            return ()
        return tuple(self._speller.near(word))

    def _corrected(self, meaning: str, found: Sequence[QueryWord]) -> str:
        if len(found) == 1 and " " not in meaning and found[0].found and found[0].found[0][1] < 1:
            return self._vocabulary.spellings[found[0].found[0][0]]
        return meaning

    def _merged(self, sought: Sequence[QueryWord], words: Sequence[str]) -> tuple[QueryWord, ...]:
        """Repeated words once, counting more; each with what else may be meant by it."""
        named: list[int | str] = [one.found[0][0] if one.found else one.word for one in sought]
        times = Counter(named)
        others, phrases = self._synonyms(words)
        merged: dict[int | str, QueryWord] = {}
        for name, one in zip(named, sought, strict=True):
            if name in merged:
                continue
            options = one.found
            if more := others.get(name, ()) if isinstance(name, int) else ():
                known = {place for place, _ in options}
                options = (*options, *((place, SYNONYM) for place in more if place not in known))
            merged[name] = QueryWord(one.word, 1 + math.log(times[name]), options)
        return (*merged.values(), *phrases)

    def _synonyms(self, words: Sequence[str]) -> tuple[dict[int, list[int]], list[QueryWord]]:
        """By word of the catalog what else it may mean; and phrases and unknown words with their meanings."""
        places = self._vocabulary.places
        others: dict[int, list[int]] = {}
        phrases: list[QueryWord] = []
        for said, meant in self._thesaurus.meanings(words) if self._thesaurus is not None else ():
            options = [places[term] for term in meant if term in places]
            if len(said) == 1 and said[0] in places:
                others.setdefault(places[said[0]], []).extend(options)
            elif options:
                weight = SYNONYM if len(said) == 1 else PHRASE
                phrases.append(QueryWord(" ".join(said), weight, tuple((place, 1.0) for place in options)))
        return others, list(dict.fromkeys(phrases))


def clean(query: str) -> str:
    """The beginning of ``query``, with blanks for what cannot be printed."""
    text = query[:LONGEST_QUERY]
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else " " for c in text)
