"""Searching for text: what of an execution is searched, and what is asked for, in words of SQLite's FTS5.

Words are letters and digits side by side, here and in the index. What a user types becomes quoted words, never syntax.
Whose an execution is stands in a column of the index beside its text, so that counting what somebody may see of what is
found reads the index alone.
"""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from .row_values import insert

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Sequence

    from pml_hookspecs import ExecutionRecord, Scope

    from .row_values import Row

SEARCHED_CHARACTERS = 2048
"""Of each part of an execution."""

MOST_NAMES = 64
"""Principals and agents of one scope that the index is asked for; more are looked up row by row."""

WHOLE_NAME_BYTES = 64
"""Longer names are known by their digest."""

TABLE = "execution_text"
COLUMNS = ("rowid", "said", "who")
CREATE = (
    "CREATE VIRTUAL TABLE execution_text USING fts5("
    "said, who, detail = column, columnsize = 0, prefix = '1 2 3', "
    "tokenize = \"unicode61 remove_diacritics 0 categories 'L* N*'\")"
)

INDEXED_BEGINNINGS = 3
"""Letters of a beginning of words that the index can look up; of longer ones it collects all that there is."""
WAITING = "execution_unsearched"
"""What the index does not have yet. It takes many at a time: each taking makes one more piece of it."""
AT_ONCE = 64
"""The index takes what waits as soon as it is so much."""
PAGES_EACH = 2
"""Pages of the index merged for each execution written, at most; it takes about one for the pieces not to get more."""
CREATE_WAITING = f"CREATE TABLE {WAITING} (place INTEGER PRIMARY KEY NOT NULL, said TEXT NOT NULL, who TEXT NOT NULL)"
SET_UP = tuple(
    f"INSERT INTO {TABLE} ({TABLE}, rank) VALUES ('{option}', {number})"
    # Left alone, SQLite merges hundreds of pages in some transactions and none in the others.
    for option, number in (("automerge", 0), ("usermerge", 8), ("crisismerge", 64))
)
_MERGE = f"INSERT INTO {TABLE} ({TABLE}, rank) VALUES ('merge', ?)"
_TAKE = f"INSERT INTO {TABLE} (rowid, said, who) SELECT place, said, who FROM {WAITING} ORDER BY place"

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


@lru_cache(maxsize=1024)
def _name(kind: str, name: str) -> str:
    raw = name.encode("utf-8", "backslashreplace")
    return kind + (raw.hex() if len(raw) <= WHOLE_NAME_BYTES else f"x{hashlib.sha256(raw).hexdigest()}")


def who(principal: str, agent: str, *, as_agent: bool) -> str:
    """Whose an execution is, for the index."""
    return f"{_name('p', principal)} {_name('a', agent)}" if as_agent else _name("p", principal)


def words(text: str | None) -> list[str]:
    """The words of ``text``, each once."""
    return list(dict.fromkeys(_WORD.findall(composed(text.lower())))) if text else []


def match(wanted: Iterable[str], *, whole: bool = False) -> str:
    """The question for executions that have all these words, or others that begin with them unless ``whole``."""
    return "{said} : (" + " AND ".join(f'"{word}"' if whole else f'"{word}"*' for word in wanted) + ")"


def says(said: str, wanted: Collection[str]) -> bool:
    """Whether a text has all these words, or others that begin with them."""
    lower = said.lower()
    if not all(word in lower for word in wanted):
        return False
    there = _WORD.findall(lower)
    return all(any(one.startswith(word) for one in there) for word in wanted)


def whose(scope: Scope) -> str | None:
    """What to add to :func:`match`, ``""`` for everyone's; None when the index cannot be asked for so many."""
    if scope.principals is None:
        return ""
    names = [_name("p", name) for name in sorted(scope.principals)]
    names += [_name("a", name) for name in sorted(scope.agents)]
    if not 0 < len(names) <= MOST_NAMES:
        return None
    return " AND {who} : (" + " OR ".join(f'"{name}"' for name in names) + ")"


def add(connection: sqlite3.Connection, texts: Sequence[Row]) -> None:
    """Add rows of :data:`COLUMNS`; until the index takes them, :func:`waiting` finds them."""
    if not texts:
        return
    insert(connection, WAITING, ("place", *COLUMNS[1:]), texts)
    (waiting,) = connection.execute(f"SELECT count(*) FROM {WAITING}").fetchone()
    if waiting >= AT_ONCE:
        make_searchable(connection)
    # Not both in one small transaction: others wait for it.
    if waiting < AT_ONCE or len(texts) >= AT_ONCE:
        connection.execute(_MERGE, [PAGES_EACH * len(texts)])


def make_searchable(connection: sqlite3.Connection) -> None:
    """Have the index take what waits."""
    connection.execute(_TAKE)
    connection.execute(f"DELETE FROM {WAITING}")


def waiting(connection: sqlite3.Connection, wanted: Collection[str]) -> list[int]:
    """Places of executions that the index does not have yet, and that have all these words or longer ones."""
    return [place for place, said in connection.execute(f"SELECT place, said FROM {WAITING}") if says(said, wanted)]


def forget(connection: sqlite3.Connection, places: str) -> None:
    """Delete what executions at ``places``, a JSON array, say."""
    for table, column in ((WAITING, "place"), (TABLE, "rowid")):
        connection.execute(f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))", [places])
