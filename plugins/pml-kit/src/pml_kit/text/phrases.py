"""Phrases by which text gives orders to its reader: rules that are data."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from itertools import islice
from typing import Any

from . import characters

BEGINNING = 5
"""Letters by which words are compared."""
MOST_SEARCHED = 262_144
"""Characters of one text that are searched; a longer one is searched at both ends."""
SHORTEST_ENCODED = 40
"""Characters of a text in base64 that is read."""
PASSAGE = 160
"""Characters before and after, in which signals are near each other."""
MOST_PASSAGES = 32
"""Passages of one text that are looked at for one order."""
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
    near: tuple[str, ...] = ()
    """Other patterns, each of which is found, too, in the passage of :data:`PASSAGE` characters before and after."""

    @cached_property
    def search(self) -> re.Pattern[str]:
        """The pattern, compiled with the first text that has the words."""
        return re.compile(unicodedata.normalize("NFC", self.pattern))

    @cached_property
    def others(self) -> tuple[re.Pattern[str], ...]:
        """The patterns of ``near``, compiled likewise."""
        return tuple(re.compile(unicodedata.normalize("NFC", pattern)) for pattern in self.near)

    def found(self, folded: str, known: dict[str, list[re.Match[str]]] | None = None) -> str | None:
        """What it is found by: what the pattern finds, or with ``near`` the passage; None if it is not found.

        Args:
            folded: The text.
            known: What patterns have found in it; gets what this one finds, if it has ``near``.
        """
        if not self.near:
            return match[0] if (match := self.search.search(folded)) is not None else None
        known = {} if known is None else known
        if (matches := known.get(self.pattern)) is None:
            matches = known[self.pattern] = list(islice(self.search.finditer(folded), MOST_PASSAGES))
        for match in matches:
            passage = folded[max(0, match.start() - PASSAGE) : match.end() + PASSAGE]
            if all(other.search(passage) is not None for other in self.others):
                return passage
        return None

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
        self._by_word: dict[bytes, list[tuple[int, int]]] = {}
        self._by_part: dict[str, list[int]] = {}
        self._by_sign: list[int] = []
        self._bits: dict[bytes, int] = {}
        bits: dict[frozenset[bytes], int] = {}
        for number, phrase in enumerate(self.all):
            needed = 0
            for words, parts, _ in phrase.groups:
                if words and not any(part.isascii() for part in parts):
                    needed |= bits.setdefault(words, 1 << len(bits))
            words, parts, _ = phrase.groups[0]
            for word in words:
                self._by_word.setdefault(word, []).append((needed, number))
            for part in parts:
                if not part.isascii():
                    self._by_part.setdefault(part, []).append(number)
            if any(part.isascii() for part in parts):
                self._by_sign.append(number)
        for words, bit in bits.items():
            for word in words:
                self._bits[word] = self._bits.get(word, 0) | bit
        self._first, self._known = frozenset(self._by_word), frozenset(self._bits)

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
        """Phrases of which a text may have one, by the words that it has, in the order of all; none as a rule."""
        lower = folded if isinstance(folded, bytes) else folded.encode("ascii", "replace")
        return self._possible(folded, {word[:BEGINNING] for word in {*lower.translate(_APART).split()}})

    def _possible(self, folded: str | bytes, beginnings: set[bytes]) -> list[Phrase]:
        numbers = {*self._by_sign}
        plain = isinstance(folded, bytes) or folded.isascii()
        if first := self._first & beginnings:
            had = 0
            for word in self._known & beginnings:
                had |= self._bits[word]
            for word in first:
                for needed, number in self._by_word[word]:
                    if needed & had == needed or not plain:
                        numbers.add(number)
        if not plain:
            for part, several in self._by_part.items():
                if part in folded:
                    numbers.update(several)
        possible = (self.all[number] for number in sorted(numbers))
        return [phrase for phrase in possible if phrase.possible(beginnings, folded)]

    def found(self, folded: str) -> Iterator[tuple[Phrase, str]]:
        """Phrases that ``folded`` has, each with what was found; the first of each rule, in the order of all."""
        told: set[str] = set()
        known: dict[str, list[re.Match[str]]] = {}
        for phrase in self.possible(folded):
            if phrase.rule not in told and (found := phrase.found(folded, known)) is not None:
                told.add(phrase.rule)
                yield phrase, found


def phrases_from(document: Mapping[str, Any]) -> list[Phrase]:
    """The phrases of a document as ``phrases.toml`` or ``orders.toml`` is.

    Raises:
        ValueError: It is none; the message says what is missing.
    """
    try:
        reasons = {name: rule["reason"] for name, rule in document.get("rules", {}).items()}
        orders = [_order(reasons[one["rule"]], one, document["signals"]) for one in document.get("orders", ())]
        return [
            Phrase(
                rule=one["rule"],
                reason=reasons[one["rule"]],
                pattern=one["pattern"],
                words=tuple(map(tuple, one["words"])),
                language=one.get("language", ""),
            )
            for one in document.get("phrases", ())
        ] + orders
    except (KeyError, TypeError, AttributeError) as exc:
        raise ValueError(f"phrases: {exc!r} is missing or not what it should be") from exc


def _order(reason: str, order: Mapping[str, Any], signals: Mapping[str, Any]) -> Phrase:
    named = [signals[name] for name in order["signals"]]
    pattern, *near = (signal["pattern"] for signal in named)
    return Phrase(
        order["rule"],
        reason,
        pattern,
        tuple(tuple(group) for signal in named for group in signal["words"]),
        near=tuple(near),
    )


@cache
def default_phrases() -> Phrases:
    """PML's own: in English and in the languages that ``pml-search`` reads."""
    phrases, orders = (
        tomllib.loads((files(__package__) / name).read_text("utf-8")) for name in ("phrases.toml", "orders.toml")
    )
    return Phrases(phrases_from({**orders, **phrases, "rules": {**phrases["rules"], **orders["rules"]}}))
