"""Executions that are found by text.

A search gives the newest of them and says how many there are, up to a thousand. The index of words gives out all that
say a word on some day before the first is looked at. So where fewer of the newest executions have to be gone through
for a thousand of those that are found, they are counted there.
"""
# ruff: noqa: S608 - the SQL is put together from this package's own text; every value is a parameter

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pml_stores.paging import MOST_COUNTED

from .arrays import Array
from .conditions import (
    ALL,
    LAST,
    Condition,
    asked_for,
    itself_saying,
    leaving_out,
    narrowed,
    read_cursor,
    saying,
    scope_of,
    when,
    within,
)
from .pages import NEWEST_FIRST, page
from .rows import DAY, ID, READ, Row
from .sums import days_of, places_of
from .texts import wanted_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from psycopg import Connection

    from pml_hookspecs import ExecutionId, ExecutionQuery
    from pml_stores.pending_overlay import Place

FEW_DAYS = 3
"""The last days, in which a frequent word is looked for at first."""
MANY = 200_000
"""Executions of the last days from which on the index of words may take long: 20 ms or more for a word of each."""
SAMPLE = 1000
"""The newest executions, which tell how frequent it is what is asked for."""
MARGIN = 1.25
"""By how much more is gone through than the sample says."""
DEARER = 2
"""By how much more it costs to go through an execution than to have the index give it out."""
ASKED = "started_at, id, principal, agent, as_agent, kind, target, parent, triggered_by, status, nested, dry_run, words"
"""All that a query may ask for."""


def find_by_text(
    connection: Connection[Any], query: ExecutionQuery, without: Sequence[ExecutionId]
) -> tuple[list[Row], int]:
    """Those from the cursor on, newest first, one more than wanted, and how many there are, up to a thousand."""
    there, others = days_of(connection, query), _without(connection, without)
    before = None if query.cursor is None else read_cursor(query.cursor)
    if not _is_frequent(connection, query, there, others):
        found = _found(connection, query, there, others)
        if len(found) < MOST_COUNTED:
            newest = sorted((place for place in found if before is None or place < before), reverse=True)
            return _at(connection, newest[: query.limit + 1]), len(found)
    days = [day for day in there if before is None or day <= before[0] // DAY]
    # Those found first come soon, going back in time; all of them would have to be sorted.
    _plan(connection, bitmapscan=False, indexscan=True, sort=False)
    # And sooner if not each has to be compared with every day.
    rows = _newest(connection, query, days[-FEW_DAYS:], others)
    if len(rows) <= query.limit and len(days) > FEW_DAYS:
        rows = _newest(connection, query, days, others)
    return rows, MOST_COUNTED


def _without(connection: Connection[Any], ids: Sequence[ExecutionId]) -> Condition:
    """Executions without any of these ids, which are looked up once for all that a search asks."""
    if not ids:
        return ALL
    gone = leaving_out(ids)
    those = [id_ for (id_,) in connection.execute(f"{gone.sql}SELECT id FROM gone", gone.values)]
    return Condition("id <> ALL(%s::text[])", (Array("text", those),)) if those else ALL


def _at(connection: Connection[Any], places: Sequence[Place]) -> list[Row]:
    """What is there, in this order."""
    if not places:
        return []
    ids = Array("text", [id_ for _, id_ in places])
    rows = connection.execute(f"SELECT {READ} FROM execution AS e WHERE id = ANY(%s)", (ids,), binary=True).fetchall()
    by_id = {row[ID]: row for row in rows}
    return [by_id[id_] for _, id_ in places]


def _newest(connection: Connection[Any], query: ExecutionQuery, days: Sequence[int], others: Condition) -> list[Row]:
    if not days:
        return []
    place = page(query, _itself(query) & within(days[0] * DAY, LAST) & others)
    return connection.execute(
        f"SELECT {READ} FROM ({place.sql}) AS page JOIN execution AS e USING (id) "
        "ORDER BY page.started_at DESC, page.id DESC",
        place.values,
        binary=True,
    ).fetchall()


def _is_frequent(
    connection: Connection[Any], query: ExecutionQuery, there: Mapping[int, int], others: Condition
) -> bool:
    """Whether all that are counted were found among the newest executions; looked for where that is sooner.

    Args:
        connection: Where to look.
        query: What is asked for.
        there: Of :func:`days_of`.
        others: All but what is left out.
    """
    days = _last_of(there)
    executions = sum(there[day] for day in days)
    if executions <= MANY:
        return False
    since, until = when(query)
    span, found = within(max(since, days[0] * DAY), until), _itself(query) & others
    saying_so_at_all = scope_of(query.scope) & itself_saying(wanted_of(query.text))
    hits, saying_so = _count_newest(connection, span, SAMPLE, found, saying_so_at_all)
    if not hits:
        return False
    # How many there are to go through, and how many the index would give out.
    read, indexed = MARGIN * MOST_COUNTED * SAMPLE / hits, executions * saying_so / SAMPLE
    if read * DEARER > indexed:
        return False
    (counted,) = _count_newest(connection, span, int(read), found)
    return counted >= MOST_COUNTED


def _itself(query: ExecutionQuery) -> Condition:
    """All that ``query`` says but when, of executions that are looked at one by one."""
    return scope_of(query.scope) & narrowed(query) & itself_saying(wanted_of(query.text))


def _count_newest(connection: Connection[Any], span: Condition, number: int, *conditions: Condition) -> Sequence[int]:
    """How many of the newest ``number`` executions of a time each condition is true of."""
    newest = f"SELECT {ASKED} FROM execution WHERE {span.sql} {NEWEST_FIRST} {number}"
    counts = ", ".join(f"count(*) FILTER (WHERE {one.sql})" for one in conditions)
    values = [value for one in (*conditions, span) for value in one.values]
    return next(iter(connection.execute(f"SELECT {counts} FROM ({newest}) AS newest", values)))


def _last_of(there: Mapping[int, int]) -> list[int]:
    """The last of these days, no more than it takes to have many executions."""
    days: list[int] = []
    for day in reversed(there):
        if len(days) == FEW_DAYS or sum(there[one] for one in days) > MANY:
            break
        days.insert(0, day)
    return days


def _found(
    connection: Connection[Any], query: ExecutionQuery, there: Mapping[int, int], others: Condition
) -> list[Place]:
    """Where those are that the index of words finds, up to a thousand, in no order.

    Each has to be visited, to see that it is one of ``others`` as well, so that all of a frequent word would take long.
    """
    if not there:
        return []
    parts = [part & others for part in _parts(query, there, places_of(connection, query, there))]
    # Never through executions of others, whatever the server guesses of the words.
    _plan(connection, seqscan=False, indexscan=False)
    some = " UNION ALL ".join(f"(SELECT started_at, id FROM execution WHERE {part.sql})" for part in parts)
    return connection.execute(
        f"SELECT started_at, id FROM ({some}) AS found LIMIT {MOST_COUNTED}",
        tuple(v for part in parts for v in part.values),
        binary=True,
    ).fetchall()


def _plan(connection: Connection[Any], **ways: bool) -> None:
    """Have the server find rows in these ways, and not in those, until the transaction ends."""
    settings = ", ".join(f"set_config('enable_{way}', '{'on' if may else 'off'}', true)" for way, may in ways.items())
    connection.execute(f"SELECT {settings}")


def _parts(query: ExecutionQuery, there: Mapping[int, int], places: Mapping[int, Sequence[str]]) -> list[Condition]:
    """What is found in parts, the newest first: of a frequent word the first has all that is counted.

    No more than it takes, as each of them goes through what is new in the index of words.
    """
    since, until = when(query)
    wanted = wanted_of(query.text)
    whole = {day: number for day, number in there.items() if -(-since // DAY) <= day < until // DAY}
    if not _is_alone(query) or not whole:
        return [asked_for(query, places) & within(since, until)]

    def on(days: Iterable[int]) -> Condition:
        return saying(wanted, {day: places[day] for day in days if day in places})

    # Of whole days the index knows everything, where nothing else has to be looked up; of the ends the rows do.
    ends = [[day for day in there if day > max(whole)], [day for day in there if day < min(whole)]]
    new, old = ([on(end) & within(since, until)] if end else [] for end in ends)
    last = _last_of(whole)
    groups = [some for some in (last, [day for day in whole if day < last[0]]) if some]
    return [*new, *map(on, groups), *old]


def _is_alone(query: ExecutionQuery) -> bool:
    """Whether nothing else is asked for than the index of words can tell."""
    more = (query.agent, query.statuses, query.trigger, query.parent, query.target)
    return query.include_dry_runs and not query.agents_only and all(one is None for one in more)
