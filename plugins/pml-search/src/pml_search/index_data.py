"""The index: everything known of each tool, in arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ._numpy import Array, NDArray, np
from .lexical import Postings, index
from .piece_vectors import PieceVectors, tokens
from .rows import Rows, Tool, Vocabulary, boilerplate, joined, key, read_rows, short
from .tool_text import text_of
from .vectors import CentredVectors


@dataclass(frozen=True, slots=True)
class IndexData:
    """An index that can be searched."""

    ids: tuple[str, ...]
    server_of: NDArray[np.int32]
    """By tool: the place of its server in :attr:`servers`."""
    servers: tuple[str, ...]
    vocabulary: Vocabulary
    rows: Rows
    postings: Postings
    vectors: CentredVectors
    """By tool: what it means, whatever other tools there are."""
    server_vectors: Array
    """By server."""


def build(tools: Sequence[Tool], table: PieceVectors, before: tuple[Rows, Vocabulary] | None = None) -> IndexData:
    """An index of ``tools``; rows of tools that have not changed are taken from ``before``."""
    common = boilerplate(tools)
    keys = [key(tool, common) for tool in tools]
    known = {} if before is None else {row: place for place, row in enumerate(before[0].keys)}
    missing = [number for number, row in enumerate(keys) if row not in known]
    vocabulary = Vocabulary()
    parts: list[Rows] = []
    if before is not None and len(missing) < len(tools):
        vocabulary = Vocabulary(dict(before[1].places), list(before[1].spellings))
        parts.append(before[0].chosen([known[row] for row in keys if row in known]))
    parts.append(read_rows([tools[number] for number in missing], common, vocabulary, table))
    order = [number for number, row in enumerate(keys) if row in known] + missing
    rows = joined(parts)
    if order != sorted(order):
        rows = rows.chosen(np.argsort(np.array(order)).tolist())
    return _assemble(tools, *_compact(rows, vocabulary), table)


def _compact(rows: Rows, vocabulary: Vocabulary) -> tuple[Rows, Vocabulary]:
    """Leave out words that no tool has any more, and put the others in order, however they came to be known."""
    terms = list(vocabulary.places)
    used = sorted((terms[place], place) for place in np.unique(rows.words).tolist())
    places = np.zeros(max(1, len(terms)), np.int32)
    for new, (_, old) in enumerate(used):
        places[old] = new
    kept = Vocabulary({term: new for new, (term, _) in enumerate(used)}, [vocabulary.spellings[old] for _, old in used])
    words = places[rows.words]
    return Rows(rows.keys, rows.sizes, words, rows.fields, rows.times, rows.vectors, rows.bits), kept


def _assemble(tools: Sequence[Tool], rows: Rows, vocabulary: Vocabulary, table: PieceVectors) -> IndexData:
    owners = np.repeat(np.arange(len(tools), dtype=np.int32), rows.sizes)
    postings = index(owners, rows.fields, rows.words, rows.times, size=len(tools), words=len(vocabulary.places))
    server_vectors = table.encode(list(_server_texts(tools).values()))
    return with_parts(tools, rows, vocabulary, postings, server_vectors)


def with_parts(
    tools: Sequence[Tool], rows: Rows, vocabulary: Vocabulary, postings: Postings, server_vectors: Array
) -> IndexData:
    """Put together an index of parts that took long to make.

    Args:
        tools: In the order of ``rows``.
        rows: What was read out of each tool.
        vocabulary: Of the rows.
        postings: Of the rows.
        server_vectors: By server, in the order in which the tools name them.
    """
    places: dict[str, int] = {}
    for tool in tools:
        places.setdefault(tool.server, len(places))
    return IndexData(
        ids=tuple(tool.id for tool in tools),
        server_of=np.array([places[tool.server] for tool in tools], np.int32),
        servers=tuple(places),
        vocabulary=vocabulary,
        rows=rows,
        postings=postings,
        vectors=CentredVectors(rows.vectors, 0),
        server_vectors=server_vectors,
    )


def _server_texts(tools: Sequence[Tool]) -> dict[str, list[str]]:
    """By server, in the order they are met: tokens of its name, of what it says of itself and of its tools' names."""
    names: dict[str, list[str]] = defaultdict(list)
    about: dict[str, str] = {}
    for tool in tools:
        names[tool.server].append(text_of(tool.definition.get("name")))
        about[tool.server] = about.get(tool.server) or tool.about_server
    return {
        server: tokens(f"{short(server)} {about[server][:300]} {' '.join(some[:60])[:600]}")
        for server, some in names.items()
    }
