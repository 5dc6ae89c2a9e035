"""What people say instead of the words that tool definitions use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files

from .words import STOP, stem


class Thesaurus:
    """Maps words and phrases to the words of tool definitions, all of them by stem; and abbreviations to words."""

    def __init__(self, text: str, abbreviations: str = "") -> None:
        self._written_out: dict[str, list[str]] = {}
        for line in abbreviations.splitlines():
            if line and not line.startswith("#"):
                head, _, rest = line.partition(":")
                self._written_out |= dict.fromkeys(rest.split(), head.split())
        self._words: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._longest: dict[str, int] = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                head, _, rest = line.partition(":")
                meant = tuple(stem(word) for word in head.split() if word not in STOP)
                for said in rest.split():
                    key = tuple(stem(word) for word in said.split("-"))
                    known = self._words.get(key, ())
                    self._words[key] = (*known, *(term for term in meant if term not in (*known, *key)))
                    self._longest[key[0]] = max(len(key), self._longest.get(key[0], 0))

    def meanings(self, words: Sequence[str]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
        """Words and phrases of a query that stand for others: what stands there, and the terms that it may mean."""
        stems = [stem(word) for word in words]
        for at, first in enumerate(stems):
            for length in range(1, self._longest.get(first, 0) + 1):
                said = tuple(stems[at : at + length])
                if meant := self._words.get(said):
                    yield said, meant

    def written_out(self, words: Iterable[str]) -> list[str]:
        """What the abbreviations among ``words`` stand for."""
        return [meant for word in words for meant in self._written_out.get(word, ())]


@cache
def thesaurus() -> Thesaurus:
    """The thesaurus that comes with this distribution, loaded once."""
    data = files(__package__).joinpath("data")
    names = ("thesaurus.txt", "abbreviations.txt")
    return Thesaurus(*(data.joinpath(name).read_text("utf-8") for name in names))
