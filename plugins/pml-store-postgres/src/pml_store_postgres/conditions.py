"""What a query asks for, as conditions on rows. Scope is part of every one of them."""

from __future__ import annotations

import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Status

from .arrays import Array
from .rows import micros, moment
from .texts import DAY_AND_MARK, name, queries_of, query_of, wanted_of

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionId, ExecutionQuery, Scope
    from pml_stores.pending_overlay import Place

MAX_LIMIT = 100
CURSOR_MARK = "pml-postgres-1"
FIRST, LAST = -(2**63), 2**63 - 1
"""The first and the last time that a row can have [microseconds]."""

OPEN = ("pending", "running")
SUCCEEDED = tuple(sorted(status.value for status in Status if status.good))


def _literals(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))


HERE = "_"
"""Stands for what is in front of words; in none of them it is."""
IS_OPEN = f"status IN ({_literals(OPEN)})"
IS_SUCCEEDED = f"status IN ({_literals(SUCCEEDED)})"
IS_FAILED = f"status NOT IN ({_literals({*OPEN, *SUCCEEDED})})"
KNOWN = frozenset({*OPEN, *(status.value for status in Status)})
FAILED = KNOWN - {*OPEN, *SUCCEEDED}


@dataclass(frozen=True, slots=True)
class Condition:
    """Text of SQL with its values."""

    sql: str
    values: tuple[Any, ...] = ()

    def __and__(self, other: Condition) -> Condition:
        return Condition(f"{self.sql} AND {other.sql}", self.values + other.values)


ALL, NONE = Condition("true"), Condition("false")


def any_of(column: str, values: Iterable[str]) -> Condition:
    """Whether ``column`` has one of ``values``."""
    wanted = _packed(frozenset(values))
    if wanted is None:
        return NONE
    return Condition(f"{column} = {'%s' if type(wanted) is str else 'ANY(%s)'}", (wanted,))


@lru_cache(maxsize=256)
def _packed(values: frozenset[str]) -> str | Array | None:
    """Them as a value of a statement; None for none. Kept, as who asks has the same scope each time."""
    wanted = sorted({name(value) for value in values})
    if len(wanted) <= 1:
        return wanted[0] if wanted else None
    return Array("text", wanted)


def scope_of(scope: Scope) -> Condition:
    """The condition for the executions that ``scope`` allows."""
    if scope.principals is None:
        return ALL
    own = any_of("principal", scope.principals)
    if not scope.agents:
        return own
    shared = Condition("as_agent") & any_of("agent", scope.agents)
    return Condition(f"({own.sql} OR ({shared.sql}))", own.values + shared.values)


def when(query: ExecutionQuery) -> tuple[int, int]:
    """``since`` and ``until`` in microseconds; the ends of all time where they are not given.

    Raises:
        ValueError: One has no time zone.
    """
    since = FIRST if query.since is None else _micros("since", query.since)
    return since, LAST if query.until is None else _micros("until", query.until)


def _micros(what: str, moment: datetime) -> int:
    try:
        return micros(moment)
    except TypeError:
        raise ValueError(f"`{what}` has no time zone; give a UTC time") from None


def within(since: int, until: int) -> Condition:
    """Executions that started in this time; ``until`` is not part of it."""
    found = Condition("started_at >= %s", (since,)) if since != FIRST else ALL
    return found if until == LAST else found & Condition("started_at < %s", (until,))


def leaving_out(ids: Sequence[ExecutionId]) -> Condition:
    """What a statement with :func:`other_than` begins with: ``gone``, those of ``ids`` that are written."""
    if not ids:
        return Condition("")
    return Condition(
        # Not plainly of the array: the server would estimate for each of them how many there are.
        "WITH gone AS MATERIALIZED (SELECT * FROM execution WHERE id = ANY(ARRAY(SELECT unnest(%s::text[])))) ",
        (Array("text", [*map(name, ids)]),),
    )


def other_than(ids: Sequence[ExecutionId]) -> Condition:
    """Executions without any of these ids."""
    # Not of an array, which the server would go through for each execution: this it hashes.
    return Condition("id NOT IN (SELECT id FROM gone)") if ids else ALL


def asked_for(query: ExecutionQuery, places: Mapping[int, Sequence[str]]) -> Condition:
    """All that ``query`` says but when; ``places`` are days, and marks of those whose words are gone through.

    See :func:`pml_store_postgres.sums.places_of`.
    """
    found = scope_of(query.scope) & narrowed(query)
    if wanted := wanted_of(query.text):
        found &= saying(wanted, places)
    return found


def narrowed(query: ExecutionQuery) -> Condition:
    """All that it says but when, whose and which words."""
    found = ALL
    if query.agent is not None:
        found &= any_of("agent", (query.agent,))
    if query.agents_only:
        found &= Condition("as_agent")
    if query.statuses is not None:
        found &= _status(query.statuses)
    if query.trigger is not None:
        found &= any_of("triggered_by", (query.trigger,))
    if query.parent is not None:
        found &= any_of("parent", (query.parent,))
    if query.target is not None:
        # The first two are an index, of whose server's tools the third are some.
        server = Condition("split_part(target, ':', 1) = %s", (name(query.target).partition(":")[0],))
        found &= Condition("kind = 'tool'") & server & is_target("target", query.target)
    if query.top_level:
        found &= Condition("NOT nested")
    if not query.include_dry_runs:
        found &= Condition("NOT dry_run")
    return found


def saying(words: Sequence[str], places: Mapping[int, Sequence[str]]) -> Condition:
    """Executions with all of ``words``, of some days and of their marks, as the index of words knows them."""
    queries = tuple(queries_of(words, places))
    if not queries:
        return NONE
    return Condition(f"NOT nested AND ({' OR '.join(['words @@ %s::tsquery'] * len(queries))})", queries)


def itself_saying(words: Sequence[str]) -> Condition:
    """The same of an execution that is there to be looked at, of whatever day and whosever it is."""
    query = query_of(words, HERE)
    return Condition(f"NOT nested AND words @@ replace(%s, '{HERE}', {DAY_AND_MARK})::tsquery", (query,))


def _status(statuses: Iterable[str]) -> Condition:
    wanted = set(map(str, statuses))
    condition = any_of("status", wanted)
    # What follows anyway is said in the words of the two partial indexes, so that they can be used.
    if wanted and wanted <= set(OPEN):
        return Condition(IS_OPEN) & condition
    if wanted and not wanted & {*OPEN, *SUCCEEDED}:
        return Condition(IS_FAILED) & condition
    return condition


def is_target(column: str, target: str) -> Condition:
    """Whether ``column``, which has tools, is the one meant, or with ``server:*`` of the server."""
    if not target.endswith(":*"):
        return Condition(f"{column} = %s", (name(target),))
    # Sorted by code point, a server's tools stand together: ";" is what comes after ":".
    server = name(target[:-1])[:-1]
    return Condition(f"{column} >= %s AND {column} < %s", (f"{server}:", f"{server};"))


def classes_of(statuses: Iterable[str] | None) -> Sequence[str] | None:
    """Which of the counts of an hour hold executions with these statuses and no others; None when none do."""
    if statuses is None:
        return ("succeeded", "failed", "running")
    wanted = set(map(str, statuses))
    parts = {"succeeded": set(SUCCEEDED), "failed": set(FAILED), "running": set(OPEN)}
    found = [part for part, members in parts.items() if members <= wanted]
    return found if found and wanted == set().union(*(parts[part] for part in found)) else None


def write_cursor(place: Place) -> str:
    """The place right after that, as text that means nothing to a client."""
    text = json.dumps([CURSOR_MARK, *place]).encode()
    return binascii.b2a_base64(text, newline=False).decode().translate({43: "-", 47: "_", 61: None})


def read_cursor(cursor: str) -> Place:
    """Of the last row seen.

    Raises:
        ValueError: Not written by :func:`write_cursor`.
    """
    try:
        text = cursor.encode("ascii").translate(bytes.maketrans(b"-_", b"+/"))
        mark, started_at, id_ = json.loads(binascii.a2b_base64(text + b"=" * (-len(text) % 4)))
        if mark != CURSOR_MARK or type(started_at) is not int or type(id_) is not str:
            raise ValueError(mark)
        moment(started_at)
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise ValueError("`cursor` is not one that this store gave; leave it out to start at the newest") from None
    return started_at, name(id_)


def check_query(query: ExecutionQuery) -> None:
    """Find what is wrong with ``query`` before any thread is asked.

    Raises:
        ValueError: As :meth:`pml_hookspecs.Executions.find` says.
    """
    if not 1 <= query.limit <= MAX_LIMIT:
        raise ValueError(f"`limit` must be 1 to {MAX_LIMIT}, not {query.limit}")
    if query.cursor is not None:
        read_cursor(query.cursor)
    when(query)
