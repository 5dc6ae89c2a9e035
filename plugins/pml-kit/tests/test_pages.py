from __future__ import annotations

from typing import Any

import pytest

from pml_hookspecs import ExecutionQuery, Page, Scope
from pml_kit.pages import every_document, every_execution

pytestmark = pytest.mark.anyio


class Numbers:
    """Seven documents, or executions, that are numbers."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def find(self, what: Any, *, marks: Any = None, limit: int = 0, cursor: str | None = None) -> Page[Any]:
        if isinstance(what, ExecutionQuery):
            limit, cursor = what.limit, what.cursor
        self.asked.append((marks, limit, cursor))
        start = int(cursor or 0)
        return Page(list(range(7))[start : start + limit], str(start + limit) if start + limit < 7 else None, 7)


async def test_all_pages_are_read_in_order() -> None:
    store: Any = Numbers()
    assert [one async for one in every_document(store, "c", marks={"a": "b"}, page=3)] == [*range(7)]
    assert store.asked == [({"a": "b"}, 3, None), ({"a": "b"}, 3, "3"), ({"a": "b"}, 3, "6")]
    query = ExecutionQuery(scope=Scope(principals=None), limit=4)
    assert [one async for one in every_execution(store, query)] == [*range(7)]


async def test_who_stops_early_reads_no_further() -> None:
    store: Any = Numbers()
    async for one in every_execution(store, ExecutionQuery(scope=Scope(principals=None), limit=3)):
        if one == 2:  # type: ignore[comparison-overlap]
            break
    assert len(store.asked) == 1
    query = ExecutionQuery(scope=Scope(principals=None), limit=3)
    assert [one async for one in every_execution(store, query, most=3)] == [0, 1, 2]
    assert len(store.asked) == 2
