"""Text that is not what it looks like, or gives a model orders: the least that is looked for."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MOST_TEXTS = 20_000
"""Of one definition that are looked through; a server that sends more is suspicious for that."""
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co"})
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f")
"""Letters and marks that show nothing."""
_JOINERS = frozenset("\u200c\u200d")
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_MARKUP = re.compile(
    r"<\s*/?\s*(?:important|system|instructions?|secret|hidden|admin|assistant|critical)\b[^>]{0,80}>"
    r"|<!--|<\|[a-z_]{2,20}\|>|\[/?INST\]"
    r"|\b(?:ignore|disregard|forget)\s+(?:all\s+|any\s+)?(?:of\s+)?(?:the\s+|your\s+)?(?:previous|prior|above|earlier)\s+"
    r"(?:instructions?|prompts?|messages?|rules)"
    r"|\bdo\s+not\s+(?:tell|inform|mention|reveal)\b[^.\n]{0,40}\buser\b",
    re.IGNORECASE,
)


def suspicions(texts: Iterable[str]) -> Counter[str]:
    """What is wrong with texts, as words for people, and how often."""
    found: Counter[str] = Counter()
    for text in texts:
        if not (text.isascii() and text.isprintable()):
            found.update(_characters(text))
        found.update(f"text that poses as instructions: {one.group()[:60]!r}" for one in _MARKUP.finditer(text))
    return found


def texts_of(value: Any) -> Iterator[str]:
    """All texts in a JSON value, names of members among them; a sentence about it where there are too many."""
    waiting, left = [value], MOST_TEXTS
    while waiting:
        one = waiting.pop()
        left -= 1
        if left < 0:
            yield "<system>"  # nobody reads that much
            return
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
