"""What a question about executions asks for, as conditions of SQL, and how values and marks look in a database.

Scope is part of every condition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pml_hookspecs import Status
from pml_stores.matching import OPEN
from pml_stores.values import blob, check_limit, micros, read_cursor

if TYPE_CHECKING:
    from datetime import datetime

    from pml_hookspecs import ExecutionQuery, Scope
    from pml_stores.documents import Draft
    from pml_stores.values import Place

MAX_LIMIT = 100
SUCCEEDED = tuple(sorted(status.value for status in Status if status.good))
FAILED = frozenset(status.value for status in Status) - {*OPEN, *SUCCEEDED}


def _literals(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values))


IS_OPEN = f"status IN ({_literals(OPEN)})"
IS_SUCCEEDED = f"status IN ({_literals(SUCCEEDED)})"
IS_FAILED = f"status NOT IN ({_literals({*OPEN, *SUCCEEDED})})"


@dataclass(frozen=True, slots=True)
class Condition:
    """Text of SQL with its values."""

    sql: str
    values: tuple[Any, ...] = ()

    def __and__(self, other: Condition) -> Condition:
        if ALL in (self, other):
            return self if other == ALL else other
        return Condition(f"{self.sql} AND {other.sql}", self.values + other.values)


ALL, NONE = Condition("true"), Condition("false")


def joined(between: str, found: Sequence[Condition]) -> Condition:
    """All of them in one text."""
    return Condition(between.join(each.sql for each in found), tuple(v for each in found for v in each.values))


class QueryBuilder(ABC):
    """Conditions on the columns that tables have in both databases; a subclass is a dialect of SQL."""

    driver: ClassVar[str]
    """In the settings, and in cursors."""
    yes: ClassVar[str]
    """That a column, which stands as ``{}``, is true; spelled as in the indexes with this condition."""
    no: ClassVar[str]
    most_collection_bytes: ClassVar[int | None] = None
    """Longest name of a collection of documents; None for any."""
    document: ClassVar[str]
    """The column that has the number of a document's row."""
    mark_place: ClassVar[tuple[str, str]]
    """Columns of a document that its marks have, and how they say so."""
    one_mark: ClassVar[str]
    """Whether a mark is the one of these :meth:`mark`."""
    forget_marks: ClassVar[str]
    """Deletes the marks of the document with this collection and key."""
    add_mark: ClassVar[str]
    """Adds one; its values come from :meth:`mark_row`."""

    @property
    def cursors(self) -> str:
        """What cursors of executions begin with."""
        return f"pml-{self.driver}-1"

    @abstractmethod
    def execute(self, connection: Any, sql: str, values: Sequence[Any] = ()) -> Any:
        """Run one statement, in which ``?`` stands for each value; the cursor."""

    @abstractmethod
    def execute_many(self, connection: Any, sql: str, rows: Sequence[Any]) -> None:
        """Run it once for the values of each of ``rows``."""

    @abstractmethod
    def text(self, text: str) -> str:
        """``text``, a name, as it stands in a column."""

    def restored(self, text: str) -> str:
        """The inverse of :meth:`text`, and of :meth:`clean`."""
        return text

    def clean(self, text: str) -> str:
        """``text`` as it stands in a column that nothing is found by."""
        return self.text(text)

    def key(self, text: str) -> Any:
        """``text`` as it stands in a column of the catalog."""
        return self.text(text)

    def restored_key(self, stored: Any) -> str:
        """The inverse of :meth:`key`."""
        return str(stored)

    def secret(self, owner: str, name: str) -> Mapping[str, bytes]:
        """The columns that a secret is found by."""
        return {"owner": blob(owner), "name": blob(name)}

    @abstractmethod
    def mark(self, collection: bytes, name: str, text: str) -> tuple[bytes, ...]:
        """What a mark of documents is found by."""

    @abstractmethod
    def mark_row(self, draft: Draft, mark: tuple[bytes, ...]) -> tuple[Any, ...]:
        """Values of :attr:`add_mark`."""

    def source(self, query: ExecutionQuery) -> str:
        """The table of executions, and how those that ``query`` asks for are found in it."""
        return "execution"

    @abstractmethod
    def among(self, column: str, texts: Sequence[str]) -> Condition:
        """Whether ``column`` has one of several."""

    @abstractmethod
    def target(self, target: str) -> Condition:
        """Whether an execution is of this tool, or with ``server:*`` of any tool of that server."""

    def tool(self, column: str, target: str) -> Condition:
        """Whether ``column``, which has tools, is this one, or with ``server:*`` any of that server."""
        if not target.endswith(":*"):
            return Condition(f"{column} = ?", (self.text(target),))
        # Sorted by code point, a server's tools stand together: ";" is what comes after ":".
        server = self.text(target[:-1])
        return Condition(f"{column} >= ? AND {column} < ?", (server, f"{server[:-1]};"))

    def any_of(self, column: str, values: Iterable[str]) -> Condition:
        """Whether ``column`` has one of ``values``."""
        wanted = sorted({self.text(value) for value in values})
        if len(wanted) > 1:
            return self.among(column, wanted)
        return Condition(f"{column} = ?", (wanted[0],)) if wanted else NONE

    def scope(self, scope: Scope) -> Condition:
        """The condition for the executions that ``scope`` allows."""
        if scope.principals is None:
            return ALL
        own = self.any_of("principal", scope.principals)
        if not scope.agents:
            return own
        shared = Condition(self.yes.format("as_agent")) & self.any_of("agent", scope.agents)
        return Condition(f"({own.sql} OR ({shared.sql}))", own.values + shared.values)

    def between(self, column: str, first: int | None, end: int | None) -> Condition:
        """Whether ``column`` is from ``first`` on and before ``end``; None for no bound."""
        found = ALL if first is None else Condition(f"{column} >= ?", (first,))
        return found if end is None else found & Condition(f"{column} < ?", (end,))

    def shared(self, query: ExecutionQuery) -> Condition:
        """All that it says of what executions and their sums have, but when and whose."""
        found = ALL
        named = {"agent": query.agent, "principal": query.principal, "triggered_by": query.trigger}
        for column, name in named.items():
            if name is not None:
                found &= self.any_of(column, (name,))
        if query.agents_only:
            found &= Condition(self.yes.format("as_agent"))
        if query.statuses is not None:
            found &= self._status(query.statuses)
        if query.top_level:
            found &= Condition(self.no.format("nested"))
        return found if query.include_dry_runs else found & Condition(self.no.format("dry_run"))

    def narrowed(self, query: ExecutionQuery) -> Condition:
        """All that it says of executions but when, whose and which words."""
        found = self.shared(query)
        if query.parent is not None:
            found &= self.any_of("parent", (query.parent,))
        return found if query.target is None else found & self.target(query.target)

    def _status(self, statuses: Iterable[str]) -> Condition:
        wanted = set(map(str, statuses))
        condition = self.any_of("status", wanted)
        # What follows anyway is said in the words of the two partial indexes, so that they can be used.
        if wanted and wanted <= set(OPEN):
            return Condition(IS_OPEN) & condition
        return Condition(IS_FAILED) & condition if are_failed(wanted) else condition

    def after(self, query: ExecutionQuery) -> Condition:
        """Executions after the last one seen."""
        if query.cursor is None:
            return ALL
        return Condition("(started_at, id) < (?, ?)", self.read_cursor(query.cursor))

    def read_cursor(self, cursor: str) -> Place:
        """The last execution seen. ValueError for a cursor of another store."""
        at, id_ = read_cursor(self.cursors, cursor)
        return at, self.text(id_)

    def check_query(self, query: ExecutionQuery) -> None:
        """Find what is wrong with ``query`` before any thread is asked; ValueError says what."""
        check_limit(query.limit, MAX_LIMIT)
        if query.cursor is not None:
            self.read_cursor(query.cursor)
        when(query)


def are_failed(statuses: Iterable[str]) -> bool:
    """Whether these are statuses of what failed and nothing else."""
    wanted = set(map(str, statuses))
    return bool(wanted) and not wanted & {*OPEN, *SUCCEEDED}


def when(query: ExecutionQuery) -> tuple[int | None, int | None]:
    """``since`` and ``until`` in microseconds. ValueError for one without a time zone."""
    return _micros("since", query.since), _micros("until", query.until)


def _micros(what: str, moment: datetime | None) -> int | None:
    try:
        return None if moment is None else micros(moment)
    except TypeError:
        raise ValueError(f"`{what}` has no time zone; give a UTC time") from None
