"""The index on disk, so that a restart does not build it again.

One file for each catalog, named after everything that it was made from; what cannot be read is built anew. The files
hold what the servers say about their tools, nothing else.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ._numpy import Array, NDArray, np
from .index_data import IndexData, with_parts
from .lexical import Postings
from .rows import Rows, Tool, Vocabulary
from .vectors import PackedVectors

VERSION = 3
"""Changes when an index that an earlier release wrote would be wrong for this one."""
ENDING = ".pmlindex"
MOST_FILES, MOST_BYTES = 4, 200_000_000
"""Bounds of the folder; the files used last are kept."""
BAD = (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile)
"""What reading a file raises that is damaged or of another make."""


def name_of(tools: Sequence[Tool]) -> str:
    """The file's name for a catalog: changes with every tool, server and definition, and with the ranker."""
    digest = hashlib.sha256(f"{VERSION}\n".encode())
    for tool in tools:
        entry = f"{tool.id}\0{tool.server}\0{tool.digest}\0{tool.about_server}\0"
        digest.update(entry.encode("utf-8", "replace"))
    return digest.hexdigest()[:32] + ENDING


def save(data: IndexData, file: Path) -> None:
    """Write an index, whole or not at all, and drop what is too old or too much in its folder.

    Raises:
        OSError: The folder cannot be written to.
    """
    rows, postings = data.rows, data.postings
    members: dict[str, Any] = {
        "terms": _packed(data.vocabulary.places),
        "spellings": _packed(data.vocabulary.spellings),
        "keys": _packed(rows.keys),
        "sizes": rows.sizes,
        "words": rows.words,
        "fields": rows.fields,
        "times": rows.times,
        "vectors": rows.vectors.numbers,
        "scales": rows.vectors.scales,
        "bits": rows.bits,
        "tools": postings.tools,
        "gains": postings.gains,
        "starts": postings.starts,
        "rarity": postings.rarity,
        "server_vectors": data.server_vectors,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=ENDING)
    try:
        with os.fdopen(handle, "wb") as target:
            np.savez(target, **members)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _tidy(file.parent, file)


def load(file: Path, tools: Sequence[Tool]) -> IndexData | None:
    """The index of ``tools`` that was saved; None when there is none, or none that is whole and fits."""
    try:
        read = _read(file)
        if read is None or len(read[0].keys) != len(tools):
            return None
        rows, vocabulary, postings, server_vectors = read
        if len(server_vectors) != len({tool.server for tool in tools}):
            return None
        with suppress(OSError):
            os.utime(file)
        return with_parts(tools, rows, vocabulary, postings, server_vectors)
    except BAD:
        return None


def latest(folder: Path) -> tuple[Rows, Vocabulary] | None:
    """What was read of the tools of the catalog that was used last; None when that is not known."""
    with suppress(*BAD):
        files = sorted(folder.glob(f"[!.]*{ENDING}"), key=lambda path: path.stat().st_mtime_ns)
        if files and (read := _read(files[-1])) is not None:
            return read[:2]
    return None


def _read(file: Path) -> tuple[Rows, Vocabulary, Postings, Array] | None:
    with file.open("rb") as source, np.load(source, allow_pickle=False) as stored:
        terms, spellings = _unpacked(stored["terms"]), _unpacked(stored["spellings"])
        keys = _unpacked(stored["keys"])
        sizes, words, fields, times, bits = (stored[name] for name in ("sizes", "words", "fields", "times", "bits"))
        rows = Rows(tuple(keys), sizes, words, fields, times, PackedVectors(stored["vectors"], stored["scales"]), bits)
        postings = Postings(
            stored["tools"], stored["gains"], stored["starts"], stored["rarity"], size=max(1, len(keys))
        )
        server_vectors: Array = stored["server_vectors"]
    whole = (
        len(terms) == len(spellings) == len(postings.rarity) == len(postings.starts) - 1
        and len(keys) == len(rows.sizes) == len(rows.vectors) == len(rows.vectors.numbers) == len(rows.bits)
        and int(rows.sizes.sum()) == len(rows.words) == len(rows.fields) == len(rows.times)
        and int(postings.starts[-1]) == len(postings.tools) == len(postings.gains)
    )
    if not whole:
        return None
    return rows, Vocabulary({term: place for place, term in enumerate(terms)}, spellings), postings, server_vectors


def _packed(texts: Sequence[str] | dict[str, int]) -> NDArray[np.uint8]:
    return np.frombuffer("\n".join(texts).encode("utf-8", "surrogatepass"), np.uint8)


def _unpacked(stored: NDArray[np.uint8]) -> list[str]:
    text = stored.tobytes().decode("utf-8", "surrogatepass")
    return text.split("\n") if text else []


def _tidy(folder: Path, newest: Path) -> None:
    """Keep the newest files within the bounds; others may do the same at the same time."""
    with suppress(OSError):
        files = [(path.stat().st_mtime_ns, path.stat().st_size, path) for path in folder.glob(f"[!.]*{ENDING}")]
        files.sort(key=lambda entry: (entry[2] != newest, -entry[0]))
        total = 0
        for place, (_, size, path) in enumerate(files):
            total += size
            if place and (place >= MOST_FILES or total > MOST_BYTES):
                path.unlink(missing_ok=True)
