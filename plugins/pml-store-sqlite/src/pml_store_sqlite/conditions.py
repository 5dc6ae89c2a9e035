"""What a query asks for, as conditions on rows. Scope is part of every one of them."""
# ruff: noqa: S608 - the SQL is put together from this module's own text; every value is a parameter

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Status

from . import text
from .row_values import clean, micros

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from pml_hookspecs import ExecutionQuery, Scope

OPEN = ("pending", "running")
SUCCEEDED = tuple(sorted(status.value for status in Status if status.good))
MOST_LANES = 32
"""Principals and agents of a scope that are gone through one by one; with more, all executions of the time are."""


def _literals(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))


IS_OPEN = f"status IN ({_literals(OPEN)})"
IS_SUCCEEDED = f"status IN ({_literals(SUCCEEDED)})"
IS_FAILED = f"status NOT IN ({_literals({*OPEN, *SUCCEEDED})})"


@dataclass(slots=True)
class Conditions:
    """Conditions, all of which hold. Parameters are named, so that each may stand in several places of a statement."""

    values: dict[str, Any] = field(default_factory=dict)
    shared: list[str] = field(default_factory=list)
    """Conditions on executions and on sums."""
    rows: list[str] = field(default_factory=list)
    """Conditions on executions only."""
    sums: list[str] = field(default_factory=list)
    """The same conditions, as they are written for sums."""
    since: int | None = None
    until: int | None = None
    words: list[str] = field(default_factory=list)
    """Conditions by the text that was asked for."""
    marks: list[str] = field(default_factory=list)
    """The scope as the index of text knows it; empty where it is everyone, who have to be looked up."""
    everybodys: bool = False
    """Whether the scope is everyone."""
    index: str = "execution_by_time"
    """Where those that are asked for lie close together, newest last."""
    lanes: list[str] = field(default_factory=list)
    """Conditions of which one or more hold, each with an index of its own; empty when :attr:`index` is better."""
    summable: bool = True
    """Whether sums can tell how many they are."""
    by_tool: bool = False
    """Whether that takes the largest sums."""
    coarse: bool = False
    """Whether the smallest sums tell whose they are and how they ended."""
    through: int = 0
    """The last hour that the sums of days have."""
    nothing: bool = False
    """Whether no row can be meant."""
    left_out: str = ""
    """Places of executions that are not to be found, as a statement; ``""`` for none."""
    unsearched: str = ""
    """Places of those with the words asked for that the index of text does not have, likewise."""

    def value(self, value: Any) -> str:
        """The name of a new parameter."""
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def any_of(self, column: str, values: Iterable[str]) -> str:
        """The condition that ``column`` has one of ``values``."""
        wanted = sorted({clean(value) for value in values})
        if not wanted:
            return "0"
        if len(wanted) == 1:
            return f"{column} = {self.value(wanted[0])}"
        # One parameter however many values there are: SQLite limits their number.
        return f"{column} IN (SELECT value FROM json_each({self.value(json.dumps(wanted))}))"

    def leave_out(self, places: Sequence[int]) -> None:
        """Find all but the executions at ``places``."""
        self.left_out = self._these(places)

    def take_in(self, places: Sequence[int]) -> None:
        """Find the executions at ``places`` by their text as well."""
        self.unsearched = self._these(places)

    def _these(self, places: Sequence[int]) -> str:
        return f"SELECT value FROM json_each({self.value(json.dumps(places))})" if places else ""

    @property
    def others(self) -> str:
        """The condition that an execution is not left out."""
        return self.other_than("place")

    def other_than(self, place: str) -> str:
        """The same of one whose place is called so."""
        return f"{place} NOT IN ({self.left_out})" if self.left_out else "1"

    @property
    def times(self) -> tuple[int | None, int | None]:
        """:attr:`since` and :attr:`until`."""
        return self.since, self.until

    def of_rows(self) -> str:
        """All that is asked of an execution, its time included."""
        found = [*self.shared, *self.rows]
        if self.since is not None:
            found.append(f"started_at >= {self.value(self.since)}")
        if self.until is not None:
            found.append(f"started_at < {self.value(self.until)}")
        return " AND ".join(found) or "1"


def scope(found: Conditions, asked: Scope) -> str:
    """The condition that a row is in scope."""
    if asked.principals is None:
        return "1"
    mine = found.any_of("principal", asked.principals)
    if not asked.agents:
        return mine
    return f"({mine} OR (as_agent = 1 AND {found.any_of('agent', asked.agents)}))"


def _names(asked: Scope) -> tuple[int, int]:
    return len(asked.principals or ()), len(asked.agents)


def of(query: ExecutionQuery) -> Conditions:
    """What ``query`` asks for.

    Raises:
        ValueError: A time has no zone.
    """
    found = Conditions(
        since=_time("since", query.since),
        until=_time("until", query.until),
        nothing=query.statuses == frozenset() or not (query.scope.principals is None or any(_names(query.scope))),
        words=text.words(query.text),
        marks=text.marks_of(query.scope),
        everybodys=query.scope.principals is None,
    )
    found.shared.append(scope(found, query.scope))
    if query.agent is not None:
        found.shared.append(f"agent = {found.value(clean(query.agent))}")
    if query.agents_only:
        found.shared.append("as_agent = 1")
    if query.statuses is not None:
        found.shared.append(_status(found, query.statuses))
    if query.trigger is not None:
        found.shared.append(f"triggered_by = {found.value(clean(query.trigger))}")
    if query.top_level or found.words:
        found.shared.append("nested = 0")
    if not query.include_dry_runs:
        found.shared.append("dry_run = 0")
    if query.parent is not None:
        found.rows.append(f"parent = {found.value(clean(query.parent))}")
        found.summable = False
    if query.target is not None:
        _target(found, clean(query.target))
    if found.words:
        found.summable = False
    found.coarse = query.agent is query.trigger is query.target is None and not (
        query.scope.agents or query.agents_only
    )
    _choose_index(found, query)
    return found


def _time(name: str, given: datetime | None) -> int | None:
    try:
        return None if given is None else micros(given)
    except TypeError:
        raise ValueError(f"`{name}` has no time zone; give a UTC time") from None


def _status(found: Conditions, statuses: Iterable[str]) -> str:
    wanted = set(statuses)
    condition = found.any_of("status", wanted)
    # What follows anyway is said in the words of the two partial indexes, so that SQLite can use them.
    if wanted <= set(OPEN):
        return f"{IS_OPEN} AND {condition}"
    return condition if wanted & {*OPEN, *SUCCEEDED} else f"{IS_FAILED} AND {condition}"


def _target(found: Conditions, target: str) -> None:
    server, _, name = target.rpartition(":") if target.endswith(":*") else target.partition(":")
    whole = target.endswith(":*")
    if not whole and not name:
        # Without a colon, or with nothing behind it.
        server = server if ":" in target else ""
    condition = f"server = {found.value(server)}"
    found.rows += ["kind = 'tool'", condition]
    found.sums.append(condition)
    if not whole:
        found.rows.append(f"target = {found.value(target)}")
        found.sums.append(f"tool = {found.value(target)}")
    found.by_tool = True
    # In sums, what is no tool call has no server and no tool.
    found.summable &= bool(server or (target and not whole))


def _choose_index(found: Conditions, query: ExecutionQuery) -> None:
    statuses = None if query.statuses is None else set(query.statuses)
    if query.parent is not None:
        found.index = "execution_by_parent"
    elif statuses is not None and statuses <= set(OPEN):
        found.index, found.summable = "execution_open", False
    elif query.target is not None:
        found.index = "execution_by_server"
    elif query.agent is not None:
        found.index = "execution_by_agent"
    elif statuses is not None and not statuses & {*OPEN, *SUCCEEDED}:
        found.index = "execution_failed"
    elif query.scope.principals is not None and sum(_names(query.scope)) <= MOST_LANES:
        found.lanes = [
            f"INDEXED BY execution_by_principal WHERE principal = {found.value(clean(name))}"
            for name in sorted(query.scope.principals)
        ] + [
            f"INDEXED BY execution_by_own_agent WHERE as_agent = 1 AND agent = {found.value(clean(name))}"
            for name in sorted(query.scope.agents)
        ]
