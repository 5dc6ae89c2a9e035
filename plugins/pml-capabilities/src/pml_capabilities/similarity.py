"""How alike two intents are, by the words they are made of."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+")
_STOPS = """
a an and are as at by do for from have i in into is it its me my of on or our please that the them then this to up us we
with you your
"""
_STOP = frozenset(_STOPS.split())
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ed", "es", "s")
SHORTEST_STEM = 3
WEIGHT_OF_WORDS = 0.7
GRAM = 3


def likeness(one: str, other: str) -> float:
    """In ``[0, 1]``; 1 for the same words in any order, 0 when nothing is shared or there is nothing.

    Mostly the share of words that both have, by their stems; a part by groups of three letters, for other forms of a
    word and languages written without spaces.
    """
    words, grams = _parts(one)
    other_words, other_grams = _parts(other)
    if not words or not other_words:
        return 0.0
    if words == other_words:
        return 1.0
    by_words, by_grams = _dice(words, other_words), _dice(grams, other_grams)
    return WEIGHT_OF_WORDS * by_words + (1 - WEIGHT_OF_WORDS) * by_grams


def _dice(one: frozenset[str], other: frozenset[str]) -> float:
    return 2 * len(one & other) / (len(one) + len(other))


@lru_cache(maxsize=2048)
def _parts(text: str) -> tuple[frozenset[str], frozenset[str]]:
    found = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    words = frozenset(_stem(word) for word in found if word not in _STOP) or frozenset(found)
    padded = [f" {word} " for word in words]
    return words, frozenset(word[at : at + GRAM] for word in padded for at in range(len(word) - GRAM + 1))


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
            word = word[: -len(ending)]
            break
    return word[:-1] if word[-1] in "ey" and len(word) > SHORTEST_STEM else word
