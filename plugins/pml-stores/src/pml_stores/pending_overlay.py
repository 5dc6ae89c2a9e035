"""Executions that are recorded and not written yet, laid over what a database finds and adds up.

So nobody who asks has to wait for the writer, and the writer can write many at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from pml_hookspecs import ExecutionRecord, Page

from . import sums
from .matching import matches, searches
from .paging import MOST_COUNTED
from .session import Connection

if TYPE_CHECKING:
    from pml_hookspecs import AgentActivity, ExecutionId, ExecutionQuery, Grouping, Scope, Total

    from .sums import Sum

MOST = 1000
"""With more than this, waiting for the writer is quicker."""

Unwritten: TypeAlias = Mapping[str, ExecutionRecord]
"""By id, in the state recorded last."""
Place: TypeAlias = tuple[int, str]
"""When an execution started, in microseconds since 1970 UTC, and its id: pages go from the greatest to the least."""

C_contra = TypeVar("C_contra", bound=Connection, contravariant=True)
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_ORDER = attrgetter("started_at", "id")
"""The value of :func:`place_of`, faster."""


class Statements(Protocol[C_contra]):
    """What a database does with executions that are written; a module will do.

    ``without`` are executions that are left out, whatever is written of them.
    """

    one_statement: bool
    """Whether each of these asks for what it needs in one statement, if no text is looked for."""

    def check_query(self, query: ExecutionQuery, /) -> None:
        """Find what is wrong with it before any thread is asked; ValueError."""
        ...

    def says(self, record: ExecutionRecord, text: str, /) -> bool:
        """Whether a search for ``text``, in which there are words, would find this execution."""
        ...

    def get(
        self, connection: C_contra, id_: ExecutionId, scope: Scope, /, *, transcript: bool
    ) -> ExecutionRecord | None:
        """None when it does not exist or is out of scope."""
        ...

    def find(
        self, connection: C_contra, query: ExecutionQuery, without: Sequence[ExecutionId] = (), /
    ) -> Page[ExecutionRecord]:
        """A page. What is found by text is counted up to :data:`pml_stores.paging.MOST_COUNTED`."""
        ...

    def activity(
        self, connection: C_contra, query: ExecutionQuery, without: Sequence[ExecutionId] = (), /
    ) -> dict[str, Sum]:
        """By agent; of those with no execution nothing."""
        ...

    def totals(
        self, connection: C_contra, query: ExecutionQuery, by: Grouping, without: Sequence[ExecutionId] = (), /
    ) -> dict[str, Sum]:
        """By group, as :meth:`activity`; nobody asks when the last one began."""
        ...

    def write_cursor(self, place: Place, /) -> str:
        """The place right after that, as text."""
        ...

    def read_cursor(self, cursor: str, /) -> Place:
        """The inverse."""
        ...


@dataclass(frozen=True, slots=True)
class PendingOverlay(Generic[C_contra]):
    """One question, asked of a database and of what is unwritten. Runs in a reader's thread."""

    query: ExecutionQuery
    unwritten: Unwritten
    statements: Statements[C_contra]

    def find(self, connection: C_contra) -> Page[ExecutionRecord]:
        """The page, as if everything were written."""
        page = self.statements.find(connection, self.query, self._ids())
        return self._laid_over(page) if self.unwritten else page

    def activity(self, connection: C_contra) -> list[AgentActivity]:
        """What agents did, with what is pending merged in."""
        written = self.statements.activity(connection, self.query, self._ids())
        return sums.activity(sums.add_up(map(sums.kept, self._new()), "agent", written))

    def totals(self, connection: C_contra, by: Grouping) -> list[Total]:
        """Totals, with what is pending merged in."""
        written = self.statements.totals(connection, self.query, by, self._ids())
        return sums.totals(sums.add_up(map(sums.kept, self._new()), by, written), by)

    def _ids(self) -> list[ExecutionId]:
        """What was written since, or is about to be replaced, is in both: there it is left out."""
        return [record.id for record in self.unwritten.values()]

    def _new(self) -> list[ExecutionRecord]:
        query, text = self.query, self.query.text
        if text is None or not searches(query):
            return [record for record in self.unwritten.values() if matches(record, query)]
        # Words are looked for as the database does, so that nothing changes by being written.
        rest = replace(query, text=None)
        found = (record for record in self.unwritten.values() if matches(record, rest))
        return [record for record in found if self._says(record, text)]

    def _says(self, record: ExecutionRecord, text: str) -> bool:
        try:
            return self.statements.says(record, text)
        except (TypeError, ValueError, RecursionError):
            # What cannot be written down cannot be found by it.
            return False

    def _laid_over(self, page: Page[ExecutionRecord]) -> Page[ExecutionRecord]:
        new, cursor, limit = self._new(), self.query.cursor, self.query.limit
        total = page.total + len(new)
        if searches(self.query):
            total = min(total, MOST_COUNTED)
        if cursor is not None:
            last = self.statements.read_cursor(cursor)
            new = [record for record in new if place_of(record) < last]
        new = sorted(new, key=_ORDER, reverse=True)[: limit + 1]
        merged = [*(listed(sums.kept(record)) for record in new), *page.items]
        # What is new is mostly newer than all of the page.
        if new and page.items and _ORDER(new[-1]) < _ORDER(page.items[0]):
            merged.sort(key=_ORDER, reverse=True)
        items = merged[:limit]
        more = page.cursor is not None or len(merged) > limit
        return Page(items, self.statements.write_cursor(place_of(items[-1])) if more and items else None, total)


def latest(queued: Sequence[object]) -> Unwritten:
    """Of operations in the order they were queued, the executions nobody waits for."""
    return {item.id: item for item in queued if type(item) is ExecutionRecord}


def place_of(record: ExecutionRecord) -> Place:
    """Its place in the order of executions."""
    return (record.started_at - _BEGINNING) // timedelta(microseconds=1), record.id


def listed(record: ExecutionRecord) -> ExecutionRecord:
    """As lists and those who do not ask for transcripts have it."""
    return record if record.transcript is None else replace(record, transcript=None)
