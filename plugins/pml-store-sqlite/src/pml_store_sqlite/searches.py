"""Pages of what is found by text: where its executions are, and how many there are as far as they are counted."""
# ruff: noqa: S608 - the SQL is put together from this package's own text; every value is a parameter

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pml_stores.paging import MOST_COUNTED

from . import text
from .schema_history import FARTHEST, SPILLED, TIES
from .summaries import found_by_text

if TYPE_CHECKING:
    import sqlite3

    from .conditions import Conditions
    from .row_values import Row

MOST_OF_TEXT = 2
"""Conditions that text always has: its scope, and that nothing inside another execution is found by it."""
MOST_READ = 2000
"""Texts that are looked through for words that begin with those of a page."""


def hits(connection: sqlite3.Connection, found: Conditions, at: int, limit: int) -> tuple[int, list[int]]:
    """How many are found, and places among which are those of the page that begins at a time.

    Args:
        connection: To the database.
        found: What is asked for, text among it.
        at: The time of the last execution seen; all of that time are still to come, as far as this knows.
        limit: Length of the page; one more tells whether there is another.
    """
    # What the index does not know must be looked up of each.
    looked_up = bool(found.rows) or len(found.shared) > MOST_OF_TEXT
    telling, others = found_by_text(found, looked_up=looked_up)
    page = _Page(connection, found, at, limit)
    beginnings = looked_up or all(len(word) <= text.INDEXED_BEGINNINGS for word in found.words)
    these = None if beginnings else page.of_frequent_words()
    total, these = page.of(telling) if these is None else (MOST_COUNTED, these)
    if found.unsearched:
        more, those = page.of_others(found.unsearched)
        total, these = total + more, these + those
    if connection.execute("SELECT 1 FROM execution WHERE place >= ? LIMIT 1", [SPILLED]).fetchone():
        more, those = page.of_others(others)
        total, these = total + more, these + those
    return min(total, MOST_COUNTED), these


class _Page:
    """Where the executions of one page are."""

    def __init__(self, connection: sqlite3.Connection, found: Conditions, at: int, limit: int) -> None:
        self._connection, self._found, self._at, self._length = connection, found, at, limit + 1
        # Of a microsecond the places are in no order: those of the last one seen may still be to come.
        self._end, self._most = min(at + 1, FARTHEST + 1) * TIES, self._length + 2 * TIES

    def of(self, places: str) -> tuple[int, list[int]]:
        """How many, and those of the page, where places tell the time of what is found."""
        there = self._newest(places, SPILLED, max(MOST_COUNTED, self._most))
        these = [place for place in there if place < self._end]
        if len(these) < self._most and len(there) >= MOST_COUNTED:
            these = self._newest(places, self._end, self._most)
        return len(there), self._first(these)

    def of_frequent_words(self) -> list[int] | None:
        """Those of the page where more than are counted say the very words; None where that does not help.

        Of longer words that begin so, the index would collect all that there ever were.
        """
        whole, _ = found_by_text(self._found, whole=True)
        total, these = self.of(whole)
        if total < MOST_COUNTED or len(these) < self._length:
            return None
        rows = self._texts_from(these[-1] // TIES)
        if rows is None or len(rows) > MOST_READ:
            return None
        known = set(these)
        return [place for place, said in rows if place in known or text.says(said, self._found.words)]

    def _texts_from(self, start: int) -> list[Row] | None:
        """Places and texts in scope from a microsecond on to the page's end; None where others' are in the way."""
        found, most = self._found, self._found.value(MOST_READ + 1)
        first, end = found.value(start * TIES), found.value(self._end)
        if found.everybodys:
            these = f"place >= {first} AND place < {end}"
        elif found.lanes:
            lanes = " UNION ".join(
                f"SELECT * FROM (SELECT place FROM execution {lane} AND started_at >= {first} / {TIES} "
                f"AND started_at <= {end} / {TIES} AND place < {end} AND nested = 0 LIMIT {most})"
                for lane in found.lanes
            )
            these = f"place IN ({lanes})"
        else:
            return None
        rows = self._connection.execute(f"SELECT place, said FROM {text.SAID} WHERE {these} LIMIT {most}", found.values)
        return rows.fetchall()

    def _newest(self, places: str, before: int, most: int) -> list[int]:
        found = self._found
        rowid = f"{text.TABLE}.rowid"
        last = f"{rowid} < {found.value(before)} AND {found.other_than(rowid)} ORDER BY {rowid} DESC"
        rows = self._connection.execute(f"{places} AND {last} LIMIT {found.value(most)}", found.values)
        return [place for (place,) in rows]

    def _first(self, these: list[int]) -> list[int]:
        """With the last one of the page come all of its time."""
        seen = sum(place // TIES == self._at for place in these[:TIES])
        kept = these[: seen + self._length]
        return kept + [place for place in these[len(kept) :] if place // TIES == kept[-1] // TIES]

    def of_others(self, places: str) -> tuple[int, list[int]]:
        """The same where places tell no time, and each is looked up."""
        found = self._found
        last, length = found.value(self._at), found.value(self._length)
        total, these = self._connection.execute(
            f"WITH hit (place, at) AS (SELECT place, started_at FROM execution NOT INDEXED "
            f"WHERE place IN ({places}) AND {found.of_rows()} AND {found.others}), "
            f"page (at) AS (SELECT at FROM hit WHERE at <= {last} ORDER BY at DESC "
            f"LIMIT {length} + (SELECT count(*) FROM hit WHERE at = {last})) "
            "SELECT (SELECT count(*) FROM hit), (SELECT json_group_array(place) FROM hit "
            f"WHERE at <= {last} AND at >= (SELECT min(at) FROM page))",
            found.values,
        ).fetchone()
        return int(total), json.loads(these)
