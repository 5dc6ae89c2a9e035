"""Searching for text: what of an execution is searched, and what is asked for, in words of SQLite's FTS5.

Words are letters and digits side by side, here and in the index. What a user types becomes quoted words, never syntax.
Each word stands in the index behind a mark of whose it is, so that a search goes through what its scope has of a word
and through nothing else: neither what is found, nor how many, nor how long it takes tells of the words of others.
"""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .row_values import clean, insert

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pml_hookspecs import ExecutionRecord, Scope

    from .row_values import Row

SEARCHED_CHARACTERS = 2048
"""Characters of each part of an execution that are searched."""
MARK_CHARACTERS = 10
"""Of 32 letters each; all marks are as long, so that none of them with a word is another one with another word."""
INDEXED_BEGINNINGS = 3
"""Letters of a beginning of words that the index can look up; of longer ones it collects all that there is."""

TABLE = "execution_text"
CREATE = (
    f"CREATE VIRTUAL TABLE {TABLE} USING fts5(words, content = '', detail = none, columnsize = 0, "
    f"prefix = '{' '.join(str(MARK_CHARACTERS + n + 1) for n in range(INDEXED_BEGINNINGS))}', "
    # Takes what is not ASCII for letters: no word that was found here is taken apart there.
    "tokenize = 'ascii')"
)
SAID = "execution_said"
"""The texts themselves: the index has words only, and wants to be told what to forget."""
CREATE_SAID = f"CREATE TABLE {SAID} (place INTEGER PRIMARY KEY NOT NULL, said TEXT NOT NULL)"
WAITING = "execution_unsearched"
"""What the index does not have yet. It takes many at a time: each taking makes one more piece of it."""
CREATE_WAITING = f"CREATE TABLE {WAITING} (place INTEGER PRIMARY KEY NOT NULL)"
AT_ONCE = 64
"""The index takes what waits as soon as it is so much."""
PAGES_EACH = 2
"""Pages of the index merged for each execution written, at most; it takes about one for the pieces not to get more."""
SET_UP = tuple(
    f"INSERT INTO {TABLE} ({TABLE}, rank) VALUES ('{option}', {number})"
    # Left alone, SQLite merges hundreds of pages in some transactions and none in the others.
    for option, number in (("automerge", 0), ("usermerge", 8), ("crisismerge", 64))
)
_MERGE = f"INSERT INTO {TABLE} ({TABLE}, rank) VALUES ('merge', ?)"
_TEXTS = f"SELECT place, said, principal, agent, as_agent FROM {SAID} CROSS JOIN execution USING (place) WHERE place"
_EVERYONE = """
WITH RECURSIVE owner (name) AS (
    SELECT min(principal) FROM execution
    UNION ALL
    SELECT (SELECT min(principal) FROM execution WHERE principal > name) FROM owner WHERE name IS NOT NULL
)
SELECT name FROM owner WHERE name IS NOT NULL
"""

_WORD = re.compile(r"[^\W_]+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)


def said(record: ExecutionRecord, request: bytes, response: bytes) -> str:
    """What is searched of ``record``, whose request and response are given as JSON."""
    failure = record.failure
    parts = (
        record.intent[:SEARCHED_CHARACTERS],
        record.target[:SEARCHED_CHARACTERS],
        of_json(request),
        of_json(response),
        failure.message[:SEARCHED_CHARACTERS] if failure else "",
    )
    return composed("\n".join(part for part in parts if part))


def of_json(raw: bytes) -> str:
    """The beginning of ``raw`` with what is escaped in it as it is meant: after a line break a new word begins."""
    head = raw[: SEARCHED_CHARACTERS * 4].decode(errors="ignore")[:SEARCHED_CHARACTERS]
    return _ESCAPE.sub(_meant, head) if "\\" in head else head


def _meant(found: re.Match[str]) -> str:
    code, letter = found.groups()
    if code is None:
        return letter if letter in '"\\/' else " "
    character = chr(int(code, 16))
    return " " if character == "\0" or "\ud800" <= character <= "\udfff" else character


def composed(text: str) -> str:
    """``text`` as SQLite can hold it, with letters and their accents in one."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text.encode("utf-8", "ignore").decode())


def words(text: str | None) -> list[str]:
    """The words of ``text``, each once."""
    return list(dict.fromkeys(_WORD.findall(composed(text.lower())))) if text else []


@lru_cache(maxsize=1024)
def _mark(kind: str, name: str) -> str:
    digest = hashlib.sha256(f"{kind}\0{name}".encode()).digest()
    return base64.b32encode(digest).decode().lower()[:MARK_CHARACTERS]


def marks_of(scope: Scope) -> list[str]:
    """Of those whose executions are in ``scope``; none where that is everyone."""
    marks = [_mark("p", clean(name)) for name in sorted(scope.principals or ())]
    if scope.principals is None:
        return marks
    return marks + [_mark("a", clean(name)) for name in sorted(scope.agents)]


def everyone(connection: sqlite3.Connection) -> list[str]:
    """The marks of all who have executions."""
    return [_mark("p", name) for (name,) in connection.execute(_EVERYONE)]


def _entry(said: str, principal: str, agent: str, as_agent: int) -> str:
    """The words of an execution for the index, behind the marks of those whose it is."""
    marks = [_mark("p", principal), _mark("a", agent)] if as_agent else [_mark("p", principal)]
    found = words(said)
    return " ".join(mark + word for mark in marks for word in found)


def match(marks: Iterable[str], wanted: Collection[str], *, whole: bool = False) -> str:
    """The question for executions of any of ``marks`` that have all these words.

    Or others that begin with them, unless ``whole``.
    """
    end = "" if whole else "*"
    each = (" AND ".join(f'"{mark}{word}"{end}' for word in wanted) for mark in marks)
    return " OR ".join(f"({one})" for one in each)


def says(said: str, wanted: Collection[str]) -> bool:
    """Whether a text has all these words, or others that begin with them."""
    lower = composed(said.lower())
    if not all(word in lower for word in wanted):
        return False
    there = _WORD.findall(lower)
    return all(any(one.startswith(word) for one in there) for word in wanted)


def add(connection: sqlite3.Connection, texts: Sequence[Row]) -> None:
    """Add places and texts of executions; until the index takes them, :func:`waiting` finds them."""
    if not texts:
        return
    insert(connection, SAID, ("place", "said"), texts)
    insert(connection, WAITING, ("place",), [(place,) for place, _ in texts])
    (waiting,) = connection.execute(f"SELECT count(*) FROM {WAITING}").fetchone()
    if waiting >= AT_ONCE:
        make_searchable(connection)
    # Not both in one small transaction: others wait for it.
    if waiting < AT_ONCE or len(texts) >= AT_ONCE:
        connection.execute(_MERGE, [PAGES_EACH * len(texts)])


def make_searchable(connection: sqlite3.Connection) -> None:
    """Have the index take what waits."""
    take(connection, f"IN (SELECT place FROM {WAITING})")
    connection.execute(f"DELETE FROM {WAITING}")


def take(connection: sqlite3.Connection, which: str) -> None:
    """Have the index take the texts whose place is ``which``."""
    insert(connection, TABLE, ("rowid", "words"), _entries(connection, f"{which} ORDER BY place"))


def _entries(connection: sqlite3.Connection, which: str, values: Sequence[str] = ()) -> Iterator[tuple[int, str]]:
    for place, *text in connection.execute(f"{_TEXTS} {which}", values):
        yield place, _entry(*text)


def waiting(
    connection: sqlite3.Connection, wanted: Collection[str], condition: str, values: Mapping[str, Any]
) -> list[int]:
    """Places of executions that the index does not have yet, and that have all these words or longer ones.

    Nobody's words are looked at but of those that ``condition``, the scope, is true of.
    """
    rows = connection.execute(
        f"SELECT place, said FROM {WAITING} CROSS JOIN {SAID} USING (place) CROSS JOIN execution USING (place) "
        f"WHERE {condition}",
        values,
    )
    return [place for place, said in rows if says(said, wanted)]


def forget(connection: sqlite3.Connection, places: str) -> None:
    """Delete what executions at ``places``, a JSON array, say. They themselves are there still."""
    these = "IN (SELECT value FROM json_each(?))"
    entries = _entries(connection, f"{these} AND place NOT IN (SELECT place FROM {WAITING})", [places])
    insert(connection, TABLE, (TABLE, "rowid", "words"), (("delete", *entry) for entry in entries))
    for table in (WAITING, SAID):
        connection.execute(f"DELETE FROM {table} WHERE place {these}", [places])
