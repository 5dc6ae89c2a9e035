"""Which executions come first, as statements: what a page has is found in an index that has its order."""
# ruff: noqa: S608 - the SQL is put together from this package's own text; every value is a parameter

from __future__ import annotations

from typing import TYPE_CHECKING

from .conditions import OPEN, SUCCEEDED, Condition, narrowed, other_than, read_cursor, scope_of, when, within
from .texts import name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pml_hookspecs import ExecutionId, ExecutionQuery, Scope

MOST_LANES = 32
"""Principals and agents of a scope that are gone through one by one; with more, all executions of the time are."""
STEP = 500
"""What is left out is allowed for in steps of so many, as each number makes a statement of its own."""
NEWEST_FIRST = "ORDER BY started_at DESC, id DESC LIMIT"


def page(query: ExecutionQuery, asked: Condition, more: int = 0) -> Condition:
    """Places of those that ``asked`` is true of, from the cursor on: one more than wanted, and ``more``."""
    these = asked & _span(query)
    sql = f"SELECT started_at, id FROM execution WHERE {these.sql} {NEWEST_FIRST} {query.limit + 1 + more}"
    return Condition(sql, these.values)


def page_without(query: ExecutionQuery, without: Sequence[ExecutionId]) -> Condition:
    """The same of all that ``query``, which has no text, asks for, but ``without``."""
    asked, others = narrowed(query), other_than(without)
    if not has_lanes(query) or _names(query) <= 1:
        return page(query, scope_of(query.scope) & asked & others)
    # Each in its own order, so that those of somebody who seldom does anything are not looked for among all. They are
    # merged: of each no more is read than the page takes, and what is left out, which is looked for in one place.
    more = -(-len(without) // STEP) * STEP
    lanes = [page(query, lane & asked, more) for lane in _lanes(query.scope)]
    together = " UNION ALL ".join(f"({lane.sql})" for lane in lanes)
    # An execution may be in the lane of its principal and in that of its agent.
    twice = 2 * (query.limit + 1 + more)
    sql = (
        f"SELECT DISTINCT started_at, id FROM (SELECT * FROM ({together}) AS lane {NEWEST_FIRST} {twice}) AS found "
        f"WHERE {others.sql} {NEWEST_FIRST} {query.limit + 1}"
    )
    return Condition(sql, tuple(value for lane in lanes for value in lane.values) + others.values)


def has_lanes(query: ExecutionQuery) -> bool:
    """Whether the executions of each principal and of each agent are looked for alone."""
    return query.scope.principals is not None and _names(query) <= MOST_LANES and not _narrow(query)


def takes_one_way(query: ExecutionQuery, *, summed: bool) -> bool:
    """Whether the same index is best for its page and its total, whatever the values.

    Args:
        query: What is asked for.
        summed: Whether the total comes from sums.
    """
    if query.trigger is not None or query.target is not None or not (summed or _few(query)):
        return False
    return has_lanes(query) or (query.scope.principals is None and _narrow(query) <= 1)


def _names(query: ExecutionQuery) -> int:
    return len(query.scope.principals or ()) + len(query.scope.agents)


def _narrow(query: ExecutionQuery) -> int:
    """How much is asked for that has an index of its own."""
    return sum((query.agent is not None, query.parent is not None, query.target is not None, _few(query)))


def _few(query: ExecutionQuery) -> bool:
    """Whether it asks for states that few are in, all of which are in an index."""
    if query.statuses is None:
        return False
    wanted = set(map(str, query.statuses))
    return wanted <= set(OPEN) or not wanted & {*OPEN, *SUCCEEDED}


def _span(query: ExecutionQuery) -> Condition:
    found = within(*when(query))
    if query.cursor is None:
        return found
    return found & Condition("(started_at, id) < (%s, %s)", read_cursor(query.cursor))


def _lanes(scope: Scope) -> Iterator[Condition]:
    for principal in sorted({*map(name, scope.principals or ())}):
        yield Condition("principal = %s", (principal,))
    for agent in sorted({*map(name, scope.agents)}):
        yield Condition("as_agent AND agent = %s", (agent,))
