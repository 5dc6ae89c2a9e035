"""What is suspicious about texts of a definition, so that what is new of it can be told from what was taken.

Of characters that nobody sees each one counts, also where :mod:`pml_kit.text` lets it pass: in a change it is new.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pml_kit.text.inspection import findings

MOST_TEXTS = 20_000
"""Of one definition that are looked through; a server that sends more is suspicious for that."""
_OF_CHARACTERS = frozenset({"terminal", "control", "direction", "hidden", "tags"})
"""Rules of that module."""
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co"})
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f")
"""Letters and marks that show nothing."""
_JOINERS = frozenset("\u200c\u200d")
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def suspicions(texts: Iterable[str]) -> Counter[str]:
    """What is wrong with texts, as words for people, and how often."""
    found: Counter[str] = Counter()
    for number, text in enumerate(texts):
        if number >= MOST_TEXTS:
            found["more texts than anybody reads"] += 1
            break
        if not (text.isascii() and text.isprintable()):
            found.update(_characters(text))
        found.update(f"{one.reason} ({one.excerpt})" for one in findings(text) if one.rule not in _OF_CHARACTERS)
    return found


def texts_of(value: Any) -> Iterator[str]:
    """All texts in a JSON value, names of members among them."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, (list, tuple)):
            waiting += one


def _characters(text: str) -> Iterator[str]:
    for position, char in enumerate(text):
        if " " <= char <= "~" or char in "\n\t" or (char == "\r" and text[position + 1 : position + 2] == "\n"):
            continue
        if char in _JOINERS:
            # Persian, the scripts of India and pictures need them; between Latin letters they hide something.
            beside = text[max(0, position - 1) : position] + text[position + 1 : position + 2]
            if not beside.isascii():
                continue
        if char in _BIDI:
            yield "characters that turn the direction of reading"
        elif char in "\x1b\x9b":
            yield "codes that a terminal obeys"
        elif char in _BLANK or unicodedata.category(char) in _UNSEEN:
            yield f"characters that nobody sees (U+{ord(char):04X})"
