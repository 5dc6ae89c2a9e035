"""Executions as rows: the statements of both databases. Runs in the writer's and the readers' threads."""
# ruff: noqa: S608 - the SQL is put together from this library's own text; every value is a parameter

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pml_hookspecs import Page
from pml_stores.sums import pieces
from pml_stores.values import MOST_COUNTED, moment, write_cursor
from pml_stores.words import words

from . import totals
from .query_builder import NONE, Condition, joined, when

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pml_hookspecs import ExecutionId, ExecutionQuery, ExecutionRecord, Grouping, Scope
    from pml_stores.sums import Sum
    from pml_stores.values import Place, Row

    from .query_builder import QueryBuilder

NEWEST_FIRST = "ORDER BY started_at DESC, id DESC LIMIT"


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """An execution as it is written."""

    id: str
    values: dict[str, Any]
    """By the names of their columns."""
    words: list[str]
    """What it is found by."""
    bodies: Sequence[tuple[str, int, bytes]] = ()
    """What stands apart: its name, its length as JSON [bytes], and that deflated."""


class ExecutionRows(ABC):
    """The statements. A database says how rows look, how text is searched, and how large everything is."""

    builder: ClassVar[QueryBuilder]
    columns: ClassVar[Sequence[str]]
    """What is read."""
    by_time: ClassVar[str] = ""
    """Has the table of executions, which stands before it, gone through by time."""

    @abstractmethod
    def encode(self, record: ExecutionRecord) -> EncodedRow:
        """The record as it is written, or what stands against it raised."""

    @abstractmethod
    def insert(self, connection: Any, rows: Sequence[EncodedRow]) -> None:
        """Write executions, none of which is there, with all that is kept of them but totals."""

    @abstractmethod
    def record(self, connection: Any, row: Row, *, transcript: bool = False) -> ExecutionRecord:
        """The execution of a row of :attr:`columns`."""

    @abstractmethod
    def search(self, connection: Any, query: ExecutionQuery, wanted: Sequence[str]) -> tuple[int, list[Place]]:
        """How many have all these words, up to :data:`MOST_COUNTED`, and the page, as :meth:`_page`."""

    @abstractmethod
    def text_condition(self, connection: Any, query: ExecutionQuery, wanted: Sequence[str]) -> Condition:
        """Whether an execution that ``query`` asks for has all these words, or others that begin with them."""

    @abstractmethod
    def used_bytes(self, connection: Any) -> int:
        """What is stored."""

    @abstractmethod
    def each_bytes(self, connection: Any) -> str:
        """The size of one execution ``e``, as SQL."""

    def forget(self, connection: Any, these: Condition) -> None:  # noqa: B027 - for those that keep something apart
        """Delete what is kept apart of the executions that ``these`` is true of; they themselves are there still."""

    def compact(self, connection: Any) -> bool:
        """Have what was deleted take less room, a little; whether there was anything to do."""
        return False

    def give_back(self, connection: Any) -> bool:
        """Give room that is free back, a little; whether there was any."""
        return False

    def execute(self, connection: Any, asked: Condition) -> Any:
        """Run one statement."""
        return self.builder.execute(connection, asked.sql, asked.values)

    def write(self, connection: Any, rows: Sequence[EncodedRow]) -> None:
        """Insert or replace executions, whose ids differ."""
        if rows:
            these = self.builder.among("id", [row.id for row in rows])
            self.delete(connection, these)
            self.insert(connection, rows)
            self.execute(connection, totals.add(these))

    def delete(self, connection: Any, these: Condition) -> None:
        """Delete those of these executions that are there, with all that is kept of them but their spans."""
        there = self.execute(connection, Condition(f"SELECT id FROM execution WHERE {these.sql}", these.values))
        if ids := [id_ for (id_,) in there.fetchall()]:
            these = self.builder.among("id", ids)
            self.execute(connection, totals.add(these, -1))
            self.forget(connection, these)
            self.execute(connection, Condition(f"DELETE FROM execution WHERE {these.sql}", these.values))

    def get(
        self, connection: Any, id_: ExecutionId, scope: Scope, *, transcript: bool = False
    ) -> ExecutionRecord | None:
        """None when it does not exist or is out of scope."""
        these = self.builder.any_of("id", (id_,)) & self.builder.scope(scope)
        rows = self._rows(connection, these)
        return self.record(connection, rows[0], transcript=transcript) if rows else None

    def _rows(self, connection: Any, these: Condition) -> list[Row]:
        sql = f"SELECT {', '.join(self.columns)} FROM execution WHERE {these.sql}"
        return list(self.execute(connection, Condition(sql, these.values)).fetchall())

    def find(self, connection: Any, query: ExecutionQuery) -> Page[ExecutionRecord]:
        """A page. What is found by text is counted up to :data:`MOST_COUNTED`."""
        if _asks_for_none(query):
            return Page([], None, 0)
        if wanted := words(query.text):
            total, page = self.search(connection, query, wanted)
        else:
            total, page = self._count(connection, query), self._page(connection, query, self._asked(query))
        more, page = len(page) > query.limit, page[: query.limit]
        cursor = (page[-1][0], self.builder.restored(page[-1][1])) if more else None
        ids = [id_ for _, id_ in page]
        by_id = {row[0]: row for row in self._rows(connection, self.builder.among("id", ids))} if ids else {}
        items = [self.record(connection, by_id[id_]) for id_ in ids]
        return Page(
            items, cursor and write_cursor(self.builder.cursors, cursor), min(total, MOST_COUNTED) if wanted else total
        )

    def _asked(self, query: ExecutionQuery) -> Condition:
        """All that is asked of an execution but words and a cursor."""
        found = self.builder.scope(query.scope) & self.builder.narrowed(query)
        return found & self.builder.between("started_at", *when(query))

    def _page(self, connection: Any, query: ExecutionQuery, asked: Condition) -> list[Place]:
        """Places of those from the cursor on, newest first, one more than wanted."""
        these = asked & self.builder.after(query)
        source, last = self.builder.source(query), f"{NEWEST_FIRST} {query.limit + 1}"
        sql = f"SELECT started_at, id FROM {source} WHERE {these.sql} {last}"
        return list(self.execute(connection, Condition(sql, these.values)).fetchall())

    def _parts(self, connection: Any, query: ExecutionQuery, of_rows: str, of_totals: str, end: str = "") -> Condition:
        """What executions and totals say of what ``query`` asks for, each of its executions once.

        Args:
            connection: To the database.
            query: What is asked for.
            of_rows: Columns of executions.
            of_totals: The same of totals.
            end: What stands after the conditions of both.
        """
        builder, wanted, target = self.builder, words(query.text), query.target
        whose = builder.scope(query.scope)
        rows, kept = whose & builder.narrowed(query), whose & builder.shared(query)
        if wanted:
            rows &= self.text_condition(connection, query, wanted)
        if target is not None:
            kept &= builder.tool("tool", target)
        # In totals, what is no call of a tool has the tool "".
        single = wanted or query.parent is not None or target == ""
        parts = []
        for grain, start, end_at in [(0, *when(query))] if single else pieces(*when(query)):
            if grain:
                first, last = (None if at is None else at // grain for at in (start, end_at))
                these = Condition(f"grain = {grain}") & builder.between("bucket", first, last)
                these &= Condition("executions > 0") & kept
                parts.append(Condition(f"SELECT {of_totals} FROM {totals.TABLE} WHERE {these.sql}{end}", these.values))
            else:
                these = rows & builder.between("started_at", start, end_at)
                source = builder.source(query) if single else f"execution {self.by_time}"
                parts.append(Condition(f"SELECT {of_rows} FROM {source} WHERE {these.sql}{end}", these.values))
        nothing = Condition(f"SELECT {of_rows} FROM execution WHERE {NONE.sql}{end}")
        return joined(" UNION ALL ", parts or [nothing])

    def _count(self, connection: Any, query: ExecutionQuery) -> int:
        every = self._parts(connection, query, "count(*) AS n", "sum(executions) AS n")
        sql = f"SELECT CAST(coalesce(sum(n), 0) AS bigint) FROM ({every.sql}) AS part"
        (number,) = self.execute(connection, Condition(sql, every.values)).fetchone()
        return int(number)

    def totals(self, connection: Any, query: ExecutionQuery, by: Grouping) -> dict[str, Sum]:
        """Sums by group; of groups with no execution nothing. Nobody asks when the last one began."""
        if _asks_for_none(query):
            return {}
        every = self._groups(connection, query, by)
        sql = f"SELECT what, {totals.ALL_TOGETHER} FROM ({every.sql}) AS part GROUP BY what HAVING {totals.ANY}"
        rows = self.execute(connection, Condition(sql, every.values)).fetchall()
        restored = (lambda of: of) if by == "day" else self.builder.restored
        return totals.by_group(((restored(row[0]), *row[1:]) for row in rows), by)

    def _groups(self, connection: Any, query: ExecutionQuery, by: Grouping) -> Condition:
        of_row, of_total = totals.GROUPS[by]
        rows, kept = f"{of_row} AS what, {totals.OF_ROWS}", f"{of_total} AS what, {totals.OF_TOTALS}"
        return self._parts(connection, query, rows, kept, " GROUP BY 1")

    def activity(self, connection: Any, query: ExecutionQuery) -> dict[str, Sum]:
        """Sums by agent, as :meth:`totals`, and when the last one began."""
        if _asks_for_none(query):
            return {}
        every, asked = self._groups(connection, query, "agent"), self._asked(query)
        if wanted := words(query.text):
            asked &= self.text_condition(connection, query, wanted)
        # Looked up in the hour or the day that it is in.
        last = f"SELECT max(started_at) FROM execution WHERE agent = a.what AND started_at >= a.since AND {asked.sql}"
        summed = (
            f"SELECT what, max(since) AS since, {totals.ALL_TOGETHER} FROM ({every.sql}) AS part "
            f"GROUP BY what HAVING {totals.ANY}"
        )
        sql = f"SELECT a.*, ({last}) FROM ({summed}) AS a"
        found = {}
        for agent, _, *numbers, at in self.execute(connection, Condition(sql, asked.values + every.values)).fetchall():
            (found[self.builder.restored(agent)],) = totals.by_group([(agent, *numbers)], "agent").values()
            found[self.builder.restored(agent)].last_started_at = moment(at)
        return found


def _asks_for_none(query: ExecutionQuery) -> bool:
    scope = query.scope
    return query.statuses == frozenset() or not (scope.principals is None or scope.principals or scope.agents)
