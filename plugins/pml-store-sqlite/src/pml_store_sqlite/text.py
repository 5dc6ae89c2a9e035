"""The index of words, in SQLite's FTS5.

What a user types becomes quoted words, never syntax. Each word stands in the index behind a mark of whose it is, so
that a search goes through what its scope has of a word and through nothing else: neither what is found, nor how many,
nor how long it takes tells of the words of others.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pml_stores.sql.query_builder import Condition

from .conditions import BUILDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pml_hookspecs import Scope

MARK_CHARACTERS = 10
"""Of 32 letters each; all marks are as long, so that none of them with a word is another one with another word."""
INDEXED_BEGINNINGS = 3
"""Letters of a beginning of words that the index can look up; of longer ones it collects all that there is."""
TABLE = "execution_word"
CREATE = (
    f"CREATE VIRTUAL TABLE {TABLE} USING fts5(words, detail = none, columnsize = 0, "
    f"prefix = '{' '.join(str(MARK_CHARACTERS + n + 1) for n in range(INDEXED_BEGINNINGS))}', "
    # Takes what is not ASCII for letters: no word that was found here is taken apart there.
    "tokenize = 'ascii')"
)
_EVERYONE = """
WITH RECURSIVE owner (name) AS (
    SELECT min(principal) FROM execution
    UNION ALL
    SELECT (SELECT min(principal) FROM execution WHERE principal > name) FROM owner WHERE name IS NOT NULL
)
SELECT name FROM owner WHERE name IS NOT NULL
"""


@lru_cache(maxsize=1024)
def _mark(kind: str, name: str) -> str:
    digest = hashlib.sha256(f"{kind}\0{name}".encode()).digest()
    return base64.b32encode(digest).decode().lower()[:MARK_CHARACTERS]


def entry(row: Mapping[str, Any], words: Sequence[str]) -> str:
    """What the index has of an execution: its words behind the marks of those whose it is."""
    marks = [_mark("p", row["principal"])] + ([_mark("a", row["agent"])] if row["as_agent"] else [])
    return " ".join(mark + word for mark in marks for word in words)


def has_text(entry: str, wanted: Iterable[str]) -> bool:
    """Whether what the index has of an execution has all these words, or others that begin with them."""
    there = entry.split()
    return all(any(word.startswith(beginning, MARK_CHARACTERS) for word in there) for beginning in wanted)


def match(connection: Any, scope: Scope, wanted: Iterable[str], *, whole: bool = False) -> Condition:
    """Whether an execution in ``scope`` has all these words or, unless ``whole``, longer ones."""
    if scope.principals is None:
        marks = [_mark("p", name) for (name,) in connection.execute(_EVERYONE)]
    else:
        marks = [_mark("p", BUILDER.text(name)) for name in sorted(scope.principals)]
        marks += [_mark("a", BUILDER.text(name)) for name in sorted(scope.agents)]
    end = "" if whole else "*"
    each = (" AND ".join(f'"{mark}{word}"{end}' for word in wanted) for mark in marks)
    # Where nobody is in it, what nobody says.
    return Condition(f"{TABLE} MATCH ?", (" OR ".join(f"({one})" for one in each) or '""',))
