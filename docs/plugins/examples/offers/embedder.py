"""An embedder without a model: texts are alike when they share groups of three letters. Shows what searches expect of
one: vectors of unit length, and a name that changes when they do."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import EMBEDDER

SIZE = 256


@hookimpl
def pml_offers() -> Iterable[Offer[Any]]:
    return [Offer(EMBEDDER, Trigrams())]


class Trigrams:
    name = f"trigrams-{SIZE}"

    async def embed(self, texts: Sequence[str], *, query: bool) -> list[list[float]]:
        return [vector(text.lower()) for text in texts]


def vector(text: str) -> list[float]:
    counts = [0.0] * SIZE
    for start in range(-2, len(text)):
        counts[zlib.crc32(f"  {text} "[start + 2 : start + 5].encode()) % SIZE] += 1
    length = math.hypot(*counts)
    return [count / length for count in counts]
