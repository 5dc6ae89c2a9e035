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

from . import characters

BEGINNING = 5
"""Letters by which words are compared."""
MOST_SEARCHED = 262_144
"""Characters of one text that are searched; a longer one is searched at both ends."""
SHORTEST_ENCODED = 40
"""Characters of a text in base64 that is read."""
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
        self._by_sign: list[Phrase] = []
        for phrase in self.all:
            words, parts, _ = phrase.groups[0]
            for word in words:
                self._by_word.setdefault(word, []).append(phrase)
            for part in parts:
                if not part.isascii():
                    self._by_part.setdefault(part, []).append(phrase)
            if any(part.isascii() for part in parts):
                self._by_sign.append(phrase)
        self._first = frozenset(self._by_word)
        numbers = {id(phrase): number for number, phrase in enumerate(self.all)}
        self._number = lambda phrase: numbers[id(phrase)]

    def may_be_in(self, raw: bytes) -> bool:
        """Whether :func:`~pml_kit.text.inspection.findings` may have any of a text in a JSON document.

        False of nearly every document, none of whose texts need then be read. Of more than :data:`MOST_SEARCHED` bytes
        both ends are looked at.
        """
        if len(raw) > MOST_SEARCHED:
            raw = b" ".join((raw[: MOST_SEARCHED // 2], raw[-(MOST_SEARCHED // 2) :]))
        if b"\\u" in raw or b"\x7f" in raw:
            return True
        if b"\\" in raw:
            raw = raw.replace(b"\\n", b"  ").replace(b"\\t", b"  ").replace(b"\\r", b"  ")
        lower = raw.lower()
        folded: str | bytes = lower
        if not raw.isascii():
            text = raw.decode("utf-8", "replace")
            if characters.UNSEEN.search(text) is not None or characters.MIXED.search(text) is not None:
                return True
            folded = characters.folded(lower.decode("utf-8", "replace"))
            lower = folded.encode("ascii", "replace")
        words = {*lower.translate(_APART).split()}
        if len(max(words, key=len, default=b"")) >= SHORTEST_ENCODED:
            return True
        beginnings = {word[:BEGINNING] for word in words}
        sought = not self._first.isdisjoint(beginnings) or self._by_sign or isinstance(folded, str)
        return bool(sought and self._possible(folded, beginnings))

    def possible(self, folded: str | bytes) -> list[Phrase]:
        """Phrases of which a text may have one, by the words that it has; none as a rule."""
        lower = folded if isinstance(folded, bytes) else folded.encode("ascii", "replace")
        return self._possible(folded, {word[:BEGINNING] for word in {*lower.translate(_APART).split()}})

    def _possible(self, folded: str | bytes, beginnings: set[bytes]) -> list[Phrase]:
        found = [phrase for phrase in self._by_sign if phrase.possible(beginnings, folded)]
        for word in self._first & beginnings:
            found += (phrase for phrase in self._by_word[word] if phrase.possible(beginnings, folded))
        if isinstance(folded, str) and not folded.isascii():
            for part, phrases in self._by_part.items():
                if part in folded:
                    found += (phrase for phrase in phrases if phrase.possible(beginnings, folded))
        return found

    def found(self, folded: str) -> Iterator[tuple[Phrase, str]]:
        """Phrases that ``folded`` has, each with what was found; the first of each rule, in the order of all."""
        told: set[str] = set()
        for phrase in sorted(self.possible(folded), key=self._number):
            if phrase.rule not in told and (match := phrase.search.search(folded)) is not None:
                told.add(phrase.rule)
                yield phrase, match[0]


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
