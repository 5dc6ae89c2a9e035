"""The index of words: each stands behind the day of its execution and a mark of whose it is.

A search goes through the days that it is asked for and what its scope has of a word, and no others: neither what is
found, nor how many, nor how long it takes tells of the words of others.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from pml_stores.sums import DAY

from .conditions import name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

QUERY_BYTES = 500_000
"""Longest text of a query; PostgreSQL takes no more than 1 MiB of words."""
QUERY_PARTS = 500
"""Most days and marks in one query: PostgreSQL goes as deep as there are."""
MARK_CHARACTERS = 12
MARK = f"left(encode(sha256(convert_to('p:' || principal, 'UTF8')), 'hex'), {MARK_CHARACTERS})"
"""What :func:`mark_of` makes of the principal of a row, in SQL."""
DAY_AND_MARK = f"lpad(to_hex(greatest(started_at / {DAY}, 0)), 4, '0') || {MARK}"
"""What is in front of the words of a row."""


def words_of(row: Mapping[str, Any], words: Sequence[str]) -> str | None:
    """The words of an execution as the text of a ``tsvector``; None for what is not found by text."""
    if row["nested"]:
        return None
    day = _day(row["started_at"] // DAY)
    marks = [mark_of("principal", row["principal"])] + ([mark_of("agent", row["agent"])] if row["as_agent"] else [])
    # Letters and digits only: none means anything to the server.
    return " ".join(day + mark + word for mark in marks for word in words)


def queries_of(words: Sequence[str], places: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """Texts of ``tsquery`` for executions with all of ``words``, of one of some days and of its marks.

    As many as it takes for each to be one that PostgreSQL takes.
    """
    parts = [f"({query_of(words, _day(day) + mark)})" for day, marks in places.items() for mark in marks]
    if not parts:
        return
    together = max(1, min(QUERY_PARTS, QUERY_BYTES // max(len(part.encode()) + 3 for part in parts)))
    for first in range(0, len(parts), together):
        yield " | ".join(parts[first : first + together])


def query_of(words: Sequence[str], place: str) -> str:
    """The text of a ``tsquery`` for all of ``words``, or beginnings of them, behind ``place``."""
    return " & ".join(f"{place}{word}:*" for word in words)


@lru_cache(maxsize=4096)
def mark_of(kind: Literal["principal", "agent"], text: str) -> str:
    """Whose an execution is, as what its words begin with: all marks are as long. SQL has :data:`MARK` for it."""
    return sha256(f"{kind[0]}:{name(text)}".encode()).hexdigest()[:MARK_CHARACTERS]


def _day(day: int) -> str:
    return f"{max(day, 0):04x}"
