"""Phrases by which text gives orders to its reader: rules that are data."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

BEGINNING = 5
"""Letters by which words are compared."""
_LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789"
_APART = bytes(byte if byte in _LETTERS else 32 for byte in range(256))


@dataclass(frozen=True)
class Phrase:
    """One way of saying what text of others has no business to say."""

    rule: str
    """The word that settings and reports have for it."""
    reason: str
    """What people are shown: a sentence about the text, which begins with *it*."""
    pattern: str
    """A regular expression over :func:`~pml_kit.text.characters.folded` text, case and accents gone. Gaps in it are of
    bounded length; whoever brings one sees to that."""
    words: tuple[tuple[str, ...], ...]
    """Of each tuple something is in whatever the pattern finds, and other texts are not searched. Not empty.

    Words of ASCII letters and digits are compared by their first :data:`BEGINNING`, all else is looked for anywhere.
    """
    language: str = ""
    """ISO 639-1; empty for all."""

    @cached_property
    def search(self) -> re.Pattern[str]:
        """The pattern, compiled with the first text that has the words."""
        return re.compile(unicodedata.normalize("NFC", self.pattern))

    @cached_property
    def groups(self) -> tuple[tuple[frozenset[bytes], tuple[str, ...], tuple[bytes, ...]], ...]:
        """For each of ``words`` the beginnings of words, and what is looked for anywhere, in texts and in bytes."""
        made = []
        for group in self.words:
            parts = tuple(unicodedata.normalize("NFC", word) for word in group if not _is_word(word))
            words = frozenset(word[:BEGINNING].encode() for word in group if _is_word(word))
            made.append((words, parts, tuple(part.encode() for part in parts)))
        return tuple(made)

    def possible(self, beginnings: frozenset[bytes] | set[bytes], folded: str | bytes) -> bool:
        """Whether a text has something of each group."""
        for words, parts, in_bytes in self.groups:
            if beginnings.isdisjoint(words) and not _has(folded, parts, in_bytes):
                return False
        return True


def _is_word(word: str) -> bool:
    return word.isascii() and word.isalnum()


def _has(text: str | bytes, parts: tuple[str, ...], in_bytes: tuple[bytes, ...]) -> bool:
    if isinstance(text, bytes):
        return any(part in text for part in in_bytes)
    return any(part in text for part in parts)


class Phrases:
    """Phrases that a text is searched for."""

    def __init__(self, phrases: Iterable[Phrase]) -> None:
        self.all = tuple(phrases)
        self._by_word: dict[bytes, list[Phrase]] = {}
        self._by_part: dict[str, list[Phrase]] = {}
        for phrase in self.all:
            words, parts, _ = phrase.groups[0]
            for word in words:
                self._by_word.setdefault(word, []).append(phrase)
            for part in parts:
                self._by_part.setdefault(part, []).append(phrase)
        self._first = frozenset(self._by_word)

    def possible(self, folded: str | bytes) -> list[Phrase]:
        """Phrases of which a text may have one, by the words that it has; none as a rule."""
        words = words_of(folded if isinstance(folded, bytes) else folded.encode("ascii", "replace"))
        return self.possible_of(words, folded)

    def possible_of(self, words: set[bytes], folded: str | bytes) -> list[Phrase]:
        """The same for a text whose :func:`words_of` are known."""
        beginnings = {word[:BEGINNING] for word in words}
        found: list[Phrase] = []
        for word in self._first & beginnings:
            found += (phrase for phrase in self._by_word[word] if phrase.possible(beginnings, folded))
        if isinstance(folded, str) and not folded.isascii():
            for part, phrases in self._by_part.items():
                if part in folded:
                    found += (phrase for phrase in phrases if phrase.possible(beginnings, folded))
        return found

    def found(self, folded: str) -> Iterator[tuple[Phrase, str]]:
        """Phrases that ``folded`` has, each with where it was found; the first of each rule."""
        told: set[str] = set()
        for phrase in self.possible(folded):
            if phrase.rule not in told and (match := phrase.search.search(folded)) is not None:
                told.add(phrase.rule)
                yield phrase, match[0]


def words_of(lower: bytes) -> set[bytes]:
    """Words of a text in small letters: runs of ASCII letters and digits."""
    return set(lower.translate(_APART).split())


def phrases_from(document: Mapping[str, Any]) -> list[Phrase]:
    """The phrases of a document as ``phrases.toml`` is.

    Raises:
        ValueError: It is none; the message says what is missing.
    """
    try:
        reasons = {name: rule["reason"] for name, rule in document.get("rules", {}).items()}
        return [
            Phrase(
                rule=one["rule"],
                reason=reasons[one["rule"]],
                pattern=one["pattern"],
                words=tuple(map(tuple, one["words"])),
                language=one.get("language", ""),
            )
            for one in document.get("phrases", ())
        ]
    except (KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"phrases: {exc!r} is missing or not what it should be") from exc


@cache
def default_phrases() -> Phrases:
    """PML's own: in English and in the languages that ``pml-search`` reads."""
    document = tomllib.loads((files(__package__) / "phrases.toml").read_text("utf-8"))
    return Phrases(phrases_from(document))
