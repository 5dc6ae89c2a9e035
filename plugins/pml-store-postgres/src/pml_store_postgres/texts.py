"""Texts as PostgreSQL can hold them, and the words that executions are found by."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Literal
from unicodedata import normalize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

NAME_BYTES = 480
"""Longest text in an index [bytes]; five of them have to fit into one entry, which PostgreSQL limits to 2704 bytes."""

SEARCHED_CHARACTERS = 2048
"""How much of each text is searched; see :attr:`pml_hookspecs.ExecutionQuery.text`."""
WORD_CHARACTERS = 500
"""Longest word; PostgreSQL takes no more than 2046 bytes."""
QUERY_BYTES = 500_000
"""Longest text of a query; PostgreSQL takes no more than 1 MiB of words."""
QUERY_PARTS = 500
"""Most days and marks in one query: PostgreSQL goes as deep as there are."""
MARK_CHARACTERS = 12
MARK = f"left(encode(sha256(convert_to('p:' || principal, 'UTF8')), 'hex'), {MARK_CHARACTERS})"
"""What :func:`mark_of` makes of the principal of a row, in SQL."""
DAY_AND_MARK = f"lpad(to_hex(greatest(started_at / 86400000000, 0)), 4, '0') || {MARK}"
"""What is in front of the words of a row."""

_WORD = re.compile(r"[^\W_]+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def clean(text: str) -> str:
    """``text`` as a column of type ``text`` can hold it; sorts as before.

    Lone surrogates, which have no UTF-8 form, are written out as escapes. NUL, which PostgreSQL does not take, becomes
    a pair of control characters that :func:`restored` knows.
    """
    if text.isascii():
        if text.isprintable():
            return text
    else:
        text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("\1", "\1\2").replace("\0", "\1\1")


def restored(text: str) -> str:
    """The inverse of :func:`clean`."""
    if "\1" not in text:
        return text
    return text.replace("\1\1", "\0").replace("\1\2", "\1")


def name(text: str) -> str:
    """As :func:`clean`, for a text in an index: one that is too long is cut, and told from others by a digest."""
    text = clean(text)
    if len(text) * 4 <= NAME_BYTES or len(encoded := text.encode()) <= NAME_BYTES:
        return text
    digest = sha256(encoded).hexdigest()
    return encoded[: NAME_BYTES - len(digest) - 3].decode(errors="ignore") + "…" + digest


def blob(text: str) -> bytes:
    """``text`` as a column of type ``bytea`` holds it: any text; sorts by code point."""
    return text.encode("utf-8", "surrogatepass")


def unblob(stored: bytes) -> str:
    """The inverse of :func:`blob`."""
    return bytes(stored).decode("utf-8", "surrogatepass")


def words_of(day: int, texts: Iterable[str], documents: Iterable[bytes | None], marks: Iterable[str]) -> str:
    """The words of an execution as the text of a ``tsvector``.

    Each has the day in front, counted since 1970, and the mark of whose it is: a search goes through the days that it
    is asked for and what its scope has of a word, and no others.

    Args:
        day: On which it started.
        texts: What it says.
        documents: What it says as JSON.
        marks: :func:`mark_of` those it belongs to.
    """
    places, there = [_day(day) + mark for mark in marks], set(said(texts, documents))
    # Letters and digits only: none means anything to the server.
    return " ".join(place + word for place in places for word in there)


def said(texts: Iterable[str], documents: Iterable[bytes | None]) -> list[str]:
    """The words of an execution that says this."""
    searched = [text[:SEARCHED_CHARACTERS] for text in texts if text]
    searched += [_plain(raw) for raw in documents if raw]
    return _words("\n".join(searched))


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


def wanted_of(text: str | None) -> list[str]:
    """The words of what is asked for, each once."""
    return list(dict.fromkeys(_words(text))) if text else []


def _words(text: str) -> list[str]:
    text = text.lower()
    if not text.isascii():
        text = normalize("NFC", text)
    return [word[:WORD_CHARACTERS] for word in _WORD.findall(text)]


def _day(day: int) -> str:
    return f"{max(day, 0):04x}"


def _plain(raw: bytes) -> str:
    # Four bytes are the most that a character takes.
    text = raw[: SEARCHED_CHARACTERS * 4].decode(errors="replace")[:SEARCHED_CHARACTERS]
    if "\\" not in text:
        return text
    text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", text)
    # Two escapes may be one character.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
