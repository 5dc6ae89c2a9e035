"""What the contract of stores says of deleting what is old; part of :class:`pml_testing.store.StoreContract`."""

from __future__ import annotations

import asyncio
import random
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from pml_hookspecs import ExecutionQuery, ExecutionRecord

from .records import EVERYONE, ended, execution

if TYPE_CHECKING:
    from pml_hookspecs import Store

MINUTE_S = 60.0


async def ids(store: Store, **filters: Any) -> list[str]:
    """Ids of all that is there, oldest first."""
    query = ExecutionQuery(scope=EVERYONE, limit=100, **filters)
    found: list[str] = []
    while True:
        page = await store.executions.find(query)
        found += [record.id for record in page.items]
        if page.cursor is None:
            assert page.total == len(found)
            return found[::-1]
        query = ExecutionQuery(scope=EVERYONE, limit=100, cursor=page.cursor, **filters)


def start_of(n: int) -> datetime:
    """When the ``n``-th execution starts."""
    return execution(n).started_at


def heavy(n: int, **members: Any) -> ExecutionRecord:
    """An execution with 20 KB that cannot be packed into less."""
    return execution(n, response={"text": random.Random(n).randbytes(20_000).hex()}, **members)


@pytest.mark.anyio
class PruneContract:
    """Tests of ``store.executions.prune``. The fixture ``store`` gives a store that is up and empty."""

    async def test_pruning_deletes_what_started_earlier(self, store: Store) -> None:
        for n in range(30):
            store.executions.record(execution(n))
        assert await store.executions.prune() == 0
        assert await store.executions.prune(before=start_of(0)) == 0
        assert await store.executions.prune(before=start_of(12)) == 12
        assert await ids(store) == [execution(n).id for n in range(12, 30)]
        assert await store.executions.prune(before=start_of(12)) == 0
        assert await store.executions.get(execution(11).id, EVERYONE) is None

    async def test_pruning_takes_what_ran_inside_along_and_nothing_else(self, store: Store) -> None:
        family = {1: None, 2: 1, 3: 2, 4: 3, 5: None, 6: 5}
        for n, parent in family.items():
            store.executions.record(execution(n, parent=None if parent is None else execution(parent).id))
        await store.traces.append([ended(n, execution(n).id) for n in family])
        assert await store.executions.prune(before=start_of(3)) == 1
        assert await ids(store) == [execution(5).id, execution(6).id]
        for n in family:
            assert len(await store.traces.of(execution(n).id, EVERYONE)) == (n > 4), n

    async def test_pruning_takes_runs_of_agents_along_with_what_they_ran_in(self, store: Store) -> None:
        run = {"agent": "a", "as_agent": True, "target": "agents:a"}
        for n in (1, 4):
            store.executions.record(execution(n))
            store.executions.record(execution(n + 1, parent=execution(n).id, **run))
            store.executions.record(execution(n + 2, parent=execution(n + 1).id))
        await store.executions.put(execution(7, status="running", duration_ms=None))
        assert await ids(store, top_level=True) == [execution(n).id for n in (1, 2, 4, 5, 7)]
        assert await store.executions.prune(before=start_of(3)) == 1
        assert await ids(store) == [execution(n).id for n in (4, 5, 6, 7)]
        assert await store.executions.prune(keep_bytes=0) == 1

    async def test_pruning_spares_what_has_not_ended(self, store: Store) -> None:
        for n, status in enumerate(("running", "pending", "ok", "error")):
            ends = {"status": status, "duration_ms": None if n < 2 else 5}
            store.executions.record(execution(n, **ends))
            store.executions.record(execution(10 + n, parent=execution(n).id))
            await store.traces.append([ended(n, execution(10 + n).id)])
        assert await store.executions.prune(before=start_of(1000)) == 2
        assert await ids(store) == [execution(n).id for n in (0, 1, 10, 11)]
        assert [len(await store.traces.of(execution(10 + n).id, EVERYONE)) for n in range(4)] == [1, 1, 0, 0]

    @pytest.mark.parametrize(
        ("how", "end"), [({"before": start_of(1000)}, 660), ({"keep_bytes": 0}, 30)], ids=["age", "size"]
    )
    async def test_pruning_spares_those_inside_which_something_still_runs(
        self, store: Store, how: dict[str, Any], end: int
    ) -> None:
        """However many there are of them, and whatever ended before or inside them."""
        spared, gone = range(0, end, 3), range(end, end + 30, 3)
        for n in (*spared, *gone):
            running = {"status": ("running", "pending")[n % 2], "duration_ms": None} if n in spared else {}
            store.executions.record(execution(n))
            store.executions.record(execution(n + 1, parent=execution(n).id))
            store.executions.record(execution(n + 2, parent=execution(n + 1).id, **running))
        await store.traces.append([ended(2, execution(2).id)])
        async with asyncio.timeout(MINUTE_S):
            assert await store.executions.prune(**how) == len(gone)
            assert await ids(store) == [execution(n).id for n in range(end)]
            assert await store.executions.prune(**how) == 0
        assert len(await store.traces.of(execution(2).id, EVERYONE)) == 1
        await store.executions.put(execution(2, parent=execution(1).id))
        assert await store.executions.prune(**how) == 1
        assert await ids(store) == [execution(n).id for n in range(3, end)]

    async def test_pruning_takes_numbers_words_and_transcripts_along(self, store: Store) -> None:
        for n in range(4):
            members: dict[str, Any] = {"cost_usd": 1.0, "intent": "zebra", "transcript": [{"n": n}]}
            store.executions.record(execution(n, response="x" * 9000, **members))
        assert await store.executions.prune(before=start_of(3)) == 3
        query = ExecutionQuery(scope=EVERYONE)
        (activity,) = await store.executions.activity(query)
        (total,) = await store.executions.totals(query, "tool")
        assert (activity.executions, activity.cost_usd, total.executions, total.cost_usd) == (1, 1.0, 1, 1.0)
        assert await ids(store, text="zebra") == [execution(3).id]
        await store.executions.put(execution(1))
        again = await store.executions.get(execution(1).id, EVERYONE, transcript=True)
        assert again is not None
        assert (again.transcript, again.response) == (None, None)
        assert await store.executions.prune(before=start_of(9)) == 2
        assert not await store.executions.activity(query)
        assert not await store.executions.totals(query, "tool")
        assert await ids(store, text="zebra") == []

    async def test_pruning_by_size_deletes_the_oldest_first(self, store: Store) -> None:
        store.executions.record(heavy(0, status="running", duration_ms=None))
        for n in range(1, 200):
            store.executions.record(heavy(n))
        assert await store.executions.prune(keep_bytes=10**12) == 0
        gone = await store.executions.prune(keep_bytes=2_500_000)
        assert 20 <= gone < 199
        left = [0, *range(gone + 1, 200)]
        assert await ids(store) == [execution(n).id for n in left]
        assert await store.executions.prune(keep_bytes=2_500_000) == 0
        assert await store.executions.prune(keep_bytes=0) == 199 - gone
        assert await ids(store) == [execution(0).id]

    async def test_pruning_by_size_stops_where_age_says_nothing(self, store: Store) -> None:
        for n in range(20):
            store.executions.record(execution(n))
        assert await store.executions.prune(before=start_of(5), keep_bytes=10**12) == 5
        assert len(await ids(store)) == 15

    async def test_pruning_leaves_all_but_executions_alone(self, store: Store) -> None:
        await store.executions.put(execution(1))
        await store.documents.put("test", "a", {"n": 1})
        await store.secrets.put("test", "a", "secret")
        await store.traces.append([ended(1), ended(2, execution(1).id)])
        await store.executions.prune(before=start_of(2), keep_bytes=0)
        assert await store.documents.get("test", "a") is not None
        assert await store.secrets.get("test", "a") == "secret"
        assert await ids(store) == []

    async def test_writing_goes_on_while_old_executions_are_deleted(self, store: Store) -> None:
        for n in range(3000):
            store.executions.record(execution(n, parent=None if n % 3 == 0 else execution(n - n % 3).id))
        async with asyncio.timeout(MINUTE_S):
            pruning = asyncio.ensure_future(store.executions.prune(before=start_of(2700)))
            n = 3000
            while not pruning.done() or n < 3100:
                store.executions.record(execution(n))
                if n % 10 == 0:
                    await store.executions.put(execution(n))
                await asyncio.sleep(0)
                n += 1
            assert await pruning == 900
        assert await ids(store) == [execution(i).id for i in range(2700, n)]
