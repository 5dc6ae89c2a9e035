"""Words: how texts and queries are taken apart, and which words are the same."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

STOP_WORDS = (
    "a about again all also am an and any are as at be been being but by can could did do does doing each else etc for "
    "from had has have having he help her here him his how i if in into is it its just let like may me might mine more "
    "most must my need no not of on once only onto or other our ours over own please same shall she should so some "
    "such than that the their them then there these they this those to too under us use used using very via want was "
    "we were what when where which who whom whose why will with without would you your yours"
)
STOP = frozenset(STOP_WORDS.split())
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
WORD = re.compile(r"[^\W_]+")
MIXED = re.compile(r"[a-z]+|\d+")
UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]+")
"""Scripts that put no spaces between words: Thai, Japanese, Chinese."""
SCRIPT_CHANGE = re.compile(
    r"(?<=[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff])(?=[a-zA-Z0-9])|(?<=[a-zA-Z0-9])(?=[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff])"
)
LONGEST_WORD = 40
"""What is longer is no word but a key, a hash or data [characters]."""
SHORTEST_STEM = 4
PLURALS = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"))
ENDINGS = ("ization", "isation", "ation", "ition", "ment", "ing", "ion", "ed", "er", "or", "ly")


def fold(text: str) -> str:
    """``text`` in lower case, without accents on Latin letters and without control characters."""
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = unicodedata.normalize("NFC", "".join(c for c in decomposed if not "\u0300" <= c <= "\u036f"))
        text = SCRIPT_CHANGE.sub(" ", text)
    return text.casefold()


def split(text: str) -> list[str]:
    """The words of a text or identifier: ``readTextFile`` and ``read_text_file`` give the same three."""
    words = WORD.findall(fold(CAMEL.sub(" ", text)))
    return [word for word in words if len(word) <= LONGEST_WORD]


def accented(text: str) -> frozenset[str]:
    """The words of ``text`` that are written with accents or other letters that English has not, without accents."""
    return frozenset() if text.isascii() else frozenset(fold(word) for word in WORD.findall(text) if not word.isascii())


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """An English word without the endings that change its grammar more than its meaning; others as they are."""
    if len(word) < SHORTEST_STEM or not word.isascii() or word.isdigit():
        return word
    word = _singular(word)
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
            word = word.removesuffix(ending)
            break
    if len(word) >= SHORTEST_STEM and word[-1] == word[-2] and word[-1] not in "sl":
        word = word[:-1]
    return word[:-1] if len(word) > SHORTEST_STEM and word[-1] in "ey" else word


def _singular(word: str) -> str:
    for ending, singular in PLURALS:
        if word.endswith(ending):
            return word.removesuffix(ending) + singular
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


@lru_cache(maxsize=50_000)
def terms_of(word: str) -> tuple[str, ...]:
    """What one word is found by; nothing for a stop word.

    A word in a script without spaces is found by pairs of letters, ``sha256`` also by ``sha`` and ``256``.
    """
    if word in STOP or (len(word) < 2 and not word.isdigit() and word.isascii()):  # noqa: PLR2004 - single letters
        return ()
    if UNSPACED.match(word):
        return tuple(word[at : at + 2] for at in range(max(1, len(word) - 1)))
    parts = MIXED.findall(word) if word.isascii() and not word.isalpha() and not word.isdigit() else []
    return (stem(word), *(stem(part) for part in parts if len(part) > 1)) if len(parts) > 1 else (stem(word),)


def terms(text: str) -> list[str]:
    """The terms of a text, in its order."""
    return [term for word in split(text) for term in terms_of(word)]
