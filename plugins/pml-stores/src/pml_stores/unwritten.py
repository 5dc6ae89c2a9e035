"""Executions that are recorded and not written yet, laid over those that a database finds.

So nobody who asks has to wait for the writer, and the writer can write many at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from pml_hookspecs import ExecutionRecord, Page

from .matching import matches
from .session import Connection

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionId, ExecutionQuery

MOST = 1000
"""With more than this, waiting for the writer is quicker."""

Unwritten: TypeAlias = Mapping[str, ExecutionRecord]
"""By id, in the state recorded last."""
Place: TypeAlias = tuple[int, str]
"""When an execution started, in microseconds since 1970 UTC, and its id: pages go from the greatest to the least."""

C_contra = TypeVar("C_contra", bound=Connection, contravariant=True)
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class Finder(Protocol[C_contra]):
    """What a database finds."""

    def find_with(
        self, connection: C_contra, query: ExecutionQuery, ids: Sequence[ExecutionId], /
    ) -> tuple[Page[ExecutionRecord], Mapping[str, ExecutionRecord]]:
        """A page of those that are written, and those that are written with ``ids``, by the id as it is given.

        Both from one state of the database. The page has as many items more than ``limit`` as of these are written,
        or as there are ids.
        """
        ...

    def write_cursor(self, place: Place, /) -> str:
        """The place right after that, as text."""
        ...

    def read_cursor(self, cursor: str, /) -> Place:
        """The inverse."""
        ...


@dataclass(frozen=True, slots=True)
class Overlay:
    """One question, asked of a database and of what is unwritten. Text is not looked for."""

    query: ExecutionQuery
    unwritten: Unwritten

    def find(self, finder: Finder[C_contra], connection: C_contra) -> Page[ExecutionRecord]:
        """The page, as if everything were written. Runs in a reader's thread, with one state of the database."""
        query, unwritten = self.query, self.unwritten
        # What was written since, or is about to be replaced, is in both.
        page, known = finder.find_with(connection, query, [record.id for record in unwritten.values()])
        new = [record for record in unwritten.values() if matches(record, query)]
        total = page.total - sum(matches(record, query) for record in known.values()) + len(new)
        if query.cursor is not None:
            last = finder.read_cursor(query.cursor)
            new = [record for record in new if place_of(record) < last]
        rest = [record for record in page.items if record.id not in unwritten]
        merged = sorted(rest + [listed(record) for record in new], key=place_of, reverse=True)
        items = merged[: query.limit]
        more = page.cursor is not None or len(merged) > query.limit
        return Page(items, finder.write_cursor(place_of(items[-1])) if more and items else None, total)


def latest(queued: Sequence[object]) -> Unwritten:
    """Of operations in the order they were queued, the executions nobody waits for."""
    return {item.id: item for item in queued if type(item) is ExecutionRecord}


def place_of(record: ExecutionRecord) -> Place:
    """Where it stands among the others."""
    return (record.started_at - _BEGINNING) // timedelta(microseconds=1), record.id


def listed(record: ExecutionRecord) -> ExecutionRecord:
    """As lists and those who do not ask for transcripts have it."""
    return record if record.transcript is None else replace(record, transcript=None)
