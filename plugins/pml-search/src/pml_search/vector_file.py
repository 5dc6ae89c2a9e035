"""A model's vectors on disk: one file for each model, each vector under a digest of the text that it stands for."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ._numpy import np
from .snapshot import BAD
from .vectors import PackedVectors

VERSION = 1
ENDING = ".pmlvectors"
MOST_VECTORS = 50_000
"""Vectors of earlier catalogs that are kept with those in use."""
KEY_BYTES = 16


def key(text: str) -> bytes:
    """What the vector of ``text`` is found by."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()[:KEY_BYTES]


def name_of(model: str) -> str:
    """The name of the file for a model."""
    return hashlib.sha256(f"{VERSION}\n{model}".encode("utf-8", "replace")).hexdigest()[:32] + ENDING


def load(folder: Path, model: str) -> tuple[list[bytes], PackedVectors] | None:
    """Keys and their vectors; None when there are none, or none that are whole."""
    try:
        with (folder / name_of(model)).open("rb") as source, np.load(source, allow_pickle=False) as stored:
            raw, vectors = stored["keys"].tobytes(), PackedVectors(stored["numbers"], stored["scales"])
    except BAD:
        return None
    keys = [raw[at : at + KEY_BYTES] for at in range(0, len(raw), KEY_BYTES)]
    whole = len(raw) == KEY_BYTES * len(vectors) and len(set(keys)) == len(vectors) == len(vectors.numbers)
    fits = vectors.numbers.ndim == 2 and vectors.numbers.dtype == np.int8 and np.isfinite(vectors.scales).all()  # noqa: PLR2004 - rows, columns
    return (keys, vectors) if whole and fits and keys else None


def kept(
    keys: Sequence[bytes], vectors: PackedVectors, used: frozenset[bytes]
) -> tuple[Sequence[bytes], PackedVectors]:
    """Keys and vectors without the oldest that are in use no more, where there are too many.

    Args:
        keys: In the order of ``vectors``, the newest last.
        vectors: By key.
        used: Keys that are kept in any case.
    """
    spare = max(0, MOST_VECTORS - len(used))
    others = [place for place, one in enumerate(keys) if one not in used]
    dropped = frozenset(others[: max(0, len(others) - spare)])
    if not dropped:
        return keys, vectors
    places = [place for place in range(len(keys)) if place not in dropped]
    return [keys[place] for place in places], vectors.chosen(np.array(places, np.int64))


def save(folder: Path, model: str, keys: Sequence[bytes], vectors: PackedVectors) -> None:
    """Write the vectors, whole or not at all.

    Args:
        folder: Where.
        model: Whose they are.
        keys: In the order of ``vectors``, the newest last.
        vectors: By key.

    Raises:
        OSError: The folder cannot be written to.
    """
    raw = np.frombuffer(b"".join(keys), np.uint8)
    folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".", suffix=ENDING)
    try:
        with os.fdopen(handle, "wb") as target:
            np.savez(target, keys=raw, numbers=vectors.numbers, scales=vectors.scales)
        Path(temporary).replace(folder / name_of(model))
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink(missing_ok=True)
        raise
