"""Vectors of tools in one byte a number, and what their products with others say.

Whole numbers below 2**24 are exact in float32, in whatever order they are added up. So a tool's cosine is the same to
the last bit wherever it stands and whatever stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ._numpy import Array, NDArray, np

LARGEST = 127
FINEST = 511
EXACT = 2**24
"""Bounds of the numbers that are kept, of those they are multiplied with, and of the sums of these products."""
SMALL = 8192
"""Vectors up to which a copy is kept that needs no conversion: 1 kB each, for a third of the time of a search."""
AT_ONCE = 2048
"""Vectors that are converted together."""


@dataclass(frozen=True, slots=True)
class PackedVectors:
    """Vectors in one byte a number, one a row, each with its scale."""

    numbers: NDArray[np.int8]
    scales: Array
    """By row: what the numbers are multiplied with."""

    def __len__(self) -> int:
        return len(self.scales)

    def chosen(self, rows: NDArray[np.int64]) -> PackedVectors:
        """These rows, in this order."""
        return PackedVectors(self.numbers[rows], self.scales[rows])

    def cosines(self, others: Array) -> Array:
        """The cosine of each of ``others`` with each vector, all of length 1: one row for each of ``others``."""
        factors, scales = _factors(others)
        products = (self.numbers.astype(np.float32) @ factors.T).T
        return np.asarray(products * scales[:, None] * self.scales, np.float32)


def packed(vectors: Array) -> PackedVectors:
    """Vectors with each number rounded to a 127th of the largest of its row."""
    numbers, scales = _whole(vectors, LARGEST)
    return PackedVectors(numbers.astype(np.int8), scales)


def _whole(vectors: Array, largest: int) -> tuple[Array, Array]:
    """Rows as whole numbers up to ``largest``, and what they are multiplied with."""
    scales = np.maximum(np.abs(vectors).max(axis=1, initial=0), 1e-9).astype(np.float32) / np.float32(largest)
    return np.rint(vectors / scales[:, None]), scales


def _factors(others: Array) -> tuple[Array, Array]:
    """``others`` as whole numbers so small that the sums of their products stay exact."""
    return _whole(others, min(FINEST, EXACT // (LARGEST * max(1, others.shape[1]))))


def joined(parts: list[PackedVectors]) -> PackedVectors:
    """The rows of all ``parts``, one after the other."""
    return PackedVectors(
        np.concatenate([part.numbers for part in parts]), np.concatenate([part.scales for part in parts])
    )


class CentredVectors:
    """Vectors of length 1 apart from a share of what all of them have in common.

    Args:
        vectors: Of about length 1.
        share: How much of their mean is taken out [0 to 1].
    """

    def __init__(self, vectors: PackedVectors, share: float) -> None:
        self._vectors = vectors
        size = vectors.numbers.shape[1]
        self._centre = np.zeros(size, np.float32)
        lengths: list[Array] = []
        if len(vectors):
            total = np.sum([part.sum(axis=0, dtype=np.float64) for part in self._parts()], axis=0)
            self._centre = (np.float64(share) * total / len(vectors)).astype(np.float32)
            lengths = [np.linalg.norm(part - self._centre, axis=1) for part in self._parts()]
        self._lengths: Array = np.concatenate([*lengths, np.empty(0, np.float32)]) + np.float32(1e-9)
        self._ready = vectors.numbers.astype(np.float32) if len(vectors) <= SMALL else None

    def _parts(self) -> Iterator[Array]:
        numbers, scales = self._vectors.numbers, self._vectors.scales
        for at in range(0, len(numbers), AT_ONCE):
            yield numbers[at : at + AT_ONCE] * scales[at : at + AT_ONCE, None]

    def cosines(self, others: Array) -> Array:
        """The cosine of each of ``others``, which are of length 1, with each vector: one row for each of them."""
        factors, scales = _factors(others)
        products = self._products(factors)
        products *= scales[:, None]
        products *= self._vectors.scales
        products -= (others @ self._centre)[:, None]
        products /= self._lengths
        return products

    def _products(self, factors: Array) -> Array:
        if self._ready is not None:
            # The other way round, the product takes three times as long.
            return np.ascontiguousarray((self._ready @ factors.T).T)
        numbers = self._vectors.numbers
        out = np.empty((len(factors), len(numbers)), np.float32)
        for at in range(0, len(numbers), AT_ONCE):
            out[:, at : at + AT_ONCE] = (numbers[at : at + AT_ONCE].astype(np.float32) @ factors.T).T
        return out
