"""Queries in other languages: word by word into the English of tool definitions.

No grammar: what counts is that ``Datei lesen``, ``lire un fichier`` and ``读取文件`` hit the same tools as *read file*.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from importlib.resources import files

from .words import STOP, UNSPACED, fold

LONGEST_PHRASE = 4
"""Words of a phrase."""
SHORTEST_BEGINNING = 3
"""Letters that the beginning of an inflected word has at least; in Chinese, Japanese and Korean two suffice."""
SURE_BEGINNING = 5
"""Letters from which a beginning tells another language from a misspelling."""
SHORTEST_PART = 4
"""Letters of each half of a compound word."""


class Languages:
    """The word list. Words are looked up without accents and in lower case."""

    def __init__(self, meanings: str, fillers: str) -> None:
        self._exact: dict[str, tuple[str, ...]] = {}
        self._beginnings: dict[str, tuple[str, ...]] = {}
        for meaning, words in _lines(meanings):
            for word in map(fold, words):
                kept = self._beginnings if word.endswith("*") else self._exact
                key = word.rstrip("*")
                kept[key] = (*kept.get(key, ()), meaning) if meaning not in kept.get(key, ()) else kept[key]
        self._fillers = frozenset(fold(word) for _, words in _lines(fillers) for word in words)
        self._longest = max(map(len, self._exact), default=0)

    def translate(
        self, words: Sequence[str], english: Callable[[str], bool], *, foreign: bool
    ) -> list[tuple[str, str]]:
        """Each word of a query with what to search for instead.

        Args:
            words: As :func:`pml_search.words.split` gives them.
            english: Tells whether a word is known to be English.
            foreign: Whether the query is in another language; see :meth:`is_foreign`.

        Returns:
            Pairs of word and meaning, in order. A word that needs no translation stands for itself; one that says
            nothing has the meaning ``""``.
        """
        pairs: list[tuple[str, str]] = []
        at = 0
        while at < len(words):
            taken, meaning = self._meaning(words, at, english, foreign=foreign)
            pairs.append((" ".join(words[at : at + taken]), meaning))
            at += taken
        return pairs

    def is_foreign(self, words: Sequence[str], english: Callable[[str], bool], accented: Collection[str] = ()) -> bool:
        """Whether more words can only be of another language than can only be English.

        Args:
            words: As :func:`pml_search.words.split` gives them.
            english: Tells whether a word is known to be English.
            accented: Those of the words that are written with accents; few English ones are.
        """
        theirs = ours = 0
        for word in words:
            filler, known = word in self._fillers, word in self._exact
            if word in accented:
                theirs += 1
            elif word.isdigit():
                continue
            elif word in STOP or (english(word) and not filler and not known):
                ours += word not in self._fillers
            elif filler or known or self._begins(word, SURE_BEGINNING) or not word.isascii():
                theirs += not english(word) or filler
        return theirs > ours

    def _meaning(
        self, words: Sequence[str], at: int, english: Callable[[str], bool], *, foreign: bool
    ) -> tuple[int, str]:
        word = words[at]
        if UNSPACED.match(word):
            return 1, " ".join(self._unspaced(word))
        if not foreign and word.isascii():
            return 1, word
        for length in range(min(LONGEST_PHRASE, len(words) - at), 1, -1):
            if found := self._exact.get("-".join(words[at : at + length])):
                return length, found[0]
        if (word in self._fillers and foreign) or word in STOP:
            return 1, ""
        return 1, " ".join(self._exact.get(word) or self._compound(word) or self._begins(word) or (word,))

    def _begins(self, word: str, least: int = SHORTEST_BEGINNING) -> tuple[str, ...]:
        shortest = least if word < "\u0370" else min(least, SHORTEST_BEGINNING) if word < "\u1100" else 1
        for length in range(len(word), shortest - 1, -1):
            if found := self._beginnings.get(word[:length]):
                return found
            if word >= "\u1100" and (found := self._exact.get(word[:length])):
                return found
        return ()

    def _compound(self, word: str) -> tuple[str, ...]:
        for length in range(len(word) - SHORTEST_PART, SHORTEST_PART - 1, -1):
            first, second = word[:length], word[length:]
            tail = self._exact.get(second) or self._begins(second, SURE_BEGINNING)
            head = next(filter(None, map(self._of_head, (first, first[:-1]))), None) if tail else None
            if head:
                return (*head[:1], *tail[:1])
        return ()

    def _of_head(self, word: str) -> tuple[str, ...] | None:
        return self._exact.get(word) or self._beginnings.get(word)

    def _unspaced(self, text: str) -> Iterator[str]:
        """Meanings of the longest known words from the left; unknown stretches as they are."""
        at = start = 0
        while at < len(text):
            for end in range(min(len(text), at + self._longest), at, -1):
                piece = text[at:end]
                found = self._exact.get(piece) or self._beginnings.get(piece)
                if found or piece in self._fillers:
                    if start < at:
                        yield text[start:at]
                    yield from (found or ())[:1]
                    at = start = end
                    break
            else:
                at += 1
        if start < len(text):
            yield text[start:]


def _lines(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            head, _, rest = line.partition(":")
            yield head.strip(), rest.split()


@cache
def languages() -> Languages:
    """The word list that comes with this distribution, loaded once."""
    data = files(__package__).joinpath("data")
    return Languages(data.joinpath("languages.txt").read_text("utf-8"), data.joinpath("fillers.txt").read_text("utf-8"))
