"""Spans of nothing that is recorded, such as of tools that only look at history, go as executions do."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from pml_hookspecs import replace
from pml_store_postgres import PostgresStore
from pml_stores.sql import pruning
from pml_testing.records import EVERYONE, ended, execution

pytestmark = pytest.mark.anyio
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def span(n, at, execution_id=None, **attributes):
    """The ``n``-th span, which began at a time."""
    made = ended(n, execution_id, start_ns=(at - EPOCH) // timedelta(microseconds=1) * 1000)
    return replace(made, attributes=attributes)


@pytest.fixture
def left(sql):
    """Numbers of the spans that are there."""
    return lambda: [int(one, 16) for (one,) in sql("SELECT span_id FROM span ORDER BY span_id").fetchall()]


@pytest.mark.parametrize("step", [2000, 3])
async def test_they_go_by_age_and_nothing_else_does(emptied, left, step, monkeypatch):
    monkeypatch.setattr(pruning, "SPANS", step)
    before = execution(0).started_at + timedelta(hours=1)
    old, young = before - timedelta(minutes=1), before + timedelta(minutes=1)
    running = execution(1, status="running", duration_ms=None, started_at=old)
    recorded = execution(2, started_at=young)
    async with PostgresStore(emptied) as store:
        for one in (running, recorded):
            await store.executions.put(one)
        spans = [span(n, old) for n in range(10)]
        spans += [span(10, old, "of nothing that is recorded"), span(11, old, running.id), span(12, old, recorded.id)]
        await store.traces.append([*spans, *(span(n, young) for n in range(13, 20))])
        assert await store.executions.prune(before=before) == 0
        assert left() == [*range(11, 20)]
        assert len(await store.traces.of(running.id, EVERYONE)) == 1


async def test_a_store_that_has_nothing_but_them_gets_small_enough(emptied, left):
    now = datetime.now(UTC)
    async with PostgresStore(emptied) as store:
        spans = [span(n, now - timedelta(hours=2), text="x" * 500) for n in range(5000)]
        await store.traces.append([*spans, span(5000, now, text="x")])
        assert await store.executions.prune(keep_bytes=0) == 0
        assert left() == [5000]


async def test_they_go_with_executions_of_their_age_where_a_size_is_to_be_reached(emptied, left, sql):
    first = datetime.now(UTC) - timedelta(days=10)
    async with PostgresStore(emptied) as store:
        for n in range(200):
            at = first + timedelta(hours=n)
            await store.executions.put(
                execution(n, started_at=at, response={"text": random.Random(n).randbytes(2000).hex()})
            )
            await store.traces.append([span(n, at, text="y" * 500)])
        (size,) = sql("SELECT sum(size_bytes)::int8 FROM stored").fetchone()
        gone = await store.executions.prune(keep_bytes=size // 2)
        assert 0 < gone < 200
        assert left() == [*range(gone, 200)]


async def test_what_is_old_is_found_by_an_index(emptied, sql):
    async with PostgresStore(emptied) as store:
        await store.traces.append([span(1, datetime.now(UTC))])
    (made,) = sql(
        "SELECT indexdef FROM pg_indexes WHERE indexname = 'span_by_time' AND indexdef LIKE '%brin%'"
    ).fetchone()
    assert "start_ns" in made
