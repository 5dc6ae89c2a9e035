"""What is suspicious about a text."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pml_kit.terminal import printable

from . import characters
from .phrases import MOST_SEARCHED, SHORTEST_ENCODED, Phrases, default_phrases

LONGEST_EXCERPT = 120
"""Characters."""
_ENCODED = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/]{40,4096}={0,2}(?![A-Za-z0-9+/=_-])")
_MOST_ENCODED = 8
"""Encoded parts of a text that are read."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something suspicious about a text."""

    rule: str
    """``terminal``, ``control``, ``direction``, ``hidden``, ``tags``, ``homoglyph``, ``encoded``, or a phrase's."""
    reason: str
    """For people: a sentence about the text, which begins with *it*."""
    excerpt: str
    """What was found, with escapes in place of what nobody sees; at most :data:`LONGEST_EXCERPT` characters."""


_CHARACTERS = (
    ("terminal", characters.TERMINAL, "it has codes that a terminal obeys"),
    ("control", characters.CONTROL, "it has control characters"),
    ("direction", characters.DIRECTION, "it turns the direction of reading, so that people read something else"),
    ("hidden", characters.HIDDEN, "it has characters of no width where no script needs them"),
    ("tags", characters.TAGS, "it has tag characters, which spell text that nobody sees"),
)


def is_suspicious(text: str, phrases: Phrases | None = None) -> bool:
    """Whether anything is found in ``text``; see :func:`findings`."""
    return next(_findings(text, phrases or default_phrases()), None) is not None


def findings(text: str, phrases: Phrases | None = None) -> list[Finding]:
    """What is suspicious about ``text``: each rule once, those about characters first; empty as a rule.

    Args:
        text: As it came. Of more than :data:`MOST_SEARCHED` characters both ends are searched.
        phrases: What it is searched for besides characters; PML's own if None.
    """
    return list(_findings(text, phrases or default_phrases()))


def _findings(text: str, phrases: Phrases) -> Iterator[Finding]:
    if len(text) > MOST_SEARCHED:
        half = MOST_SEARCHED // 2
        text = f"{text[:half]}\n{text[-half:]}"
    if characters.UNSEEN.search(text) is not None or not text.isascii():
        yield from _of_characters(text)
    folded = characters.folded(text)
    told = set()
    for phrase, found in phrases.found(folded):
        told.add(phrase.rule)
        yield Finding(phrase.rule, phrase.reason, _cut(found))
    for encoded in _decoded(text):
        for phrase, found in phrases.found(encoded):
            if "encoded" not in told:
                told.add("encoded")
                yield Finding("encoded", f"encoded in it is a text, of which is true: {phrase.reason}", _cut(found))


def _of_characters(text: str) -> Iterator[Finding]:
    for rule, pattern, reason in _CHARACTERS:
        if (match := pattern.search(text)) is not None:
            around = text[max(0, match.start() - 20) : match.end() + 40]
            yield Finding(rule, reason, _cut(characters.spelt_in_tags(text) or around if rule == "tags" else around))
    if words := characters.mixed_words(text):
        reason = "it has words with letters of another script that look Latin"
        yield Finding("homoglyph", reason, _cut(", ".join(ascii(word)[1:-1] for word in words)))


def _decoded(text: str) -> Iterator[str]:
    """What parts in base64 say, folded, of those that say something in letters."""
    if len(text) < SHORTEST_ENCODED:
        return
    for number, match in enumerate(_ENCODED.finditer(text)):
        if number >= _MOST_ENCODED:
            return
        try:
            said = base64.b64decode(match[0] + "=" * (-len(match[0]) % 4)).decode()
        except (binascii.Error, ValueError):
            continue
        yield characters.folded(said)


def _cut(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= LONGEST_EXCERPT else shown[: LONGEST_EXCERPT - 1] + "…"
