"""Several gateways with one database."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from pml_hookspecs import ExecutionQuery, replace
from pml_store_postgres import PostgresStore, Settings, StoreError
from pml_testing.records import EVERYONE, ended, execution

pytestmark = pytest.mark.anyio

GATEWAY = """
import asyncio, json, sys
from pml_hookspecs import ExecutionQuery, Scope
from pml_store_postgres import Settings, PostgresStore
from pml_testing.records import execution

async def main():
    url, schema, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
    async with PostgresStore(Settings(url=url, schema=schema, busy_timeout_ms=20_000)) as store:
        for n in range(first, first + 500):
            store.executions.record(execution(n))
        won = 0
        for round in range(40):
            while True:
                found = await store.documents.get("test", "counter")
                n, version = (found.value["n"], found.version) if found else (0, 0)
                if await store.documents.put("test", "counter", {"n": n + 1}, if_version=version):
                    break
            won += bool(await store.documents.put("test", f"round {round}", {"by": first}, if_version=0))
        mine = await store.executions.get(execution(first).id, Scope(principals=None))
        await store.secrets.put("test", f"{first}", "kept")
        print(json.dumps({"won": won, "seen": mine is not None}), flush=True)
        sys.stdin.readline()
        total = (await store.executions.find(ExecutionQuery(scope=Scope(principals=None)))).total
        others = [await store.secrets.get("test", other) for other in sys.argv[4:]]
        print(json.dumps({"total": total, "others": others}), flush=True)

asyncio.run(main())
"""


def test_processes_see_what_the_others_wrote_and_one_of_them_wins_each_race(url):
    firsts = ["0", "1000", "2000"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", GATEWAY, url, "pml", first, *firsts],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for first in firsts
    ]
    try:
        halfway = [json.loads(process.stdout.readline() or process.stderr.read()) for process in processes]
        ends = [process.communicate("\n", timeout=60) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert sum(one["won"] for one in halfway) == 40
    assert all(one["seen"] for one in halfway)
    assert [problem for _, problem in ends] == [""] * 3
    for said, _ in ends:
        assert json.loads(said) == {"total": 1500, "others": ["kept"] * 3}
    counted = asyncio.run(_counter(url))
    assert counted == (120, 120)


async def _counter(url):
    async with PostgresStore(Settings(url=url)) as store:
        found = await store.documents.get("test", "counter")
        return found.value["n"], found.version


async def test_two_stores_see_each_others_documents_at_once(emptied):
    async with PostgresStore(emptied) as one, PostgresStore(emptied) as other:
        assert await one.documents.put("test", "a", {"by": "one"}, if_version=0) == 1
        assert await other.documents.put("test", "a", {"by": "other"}, if_version=0) is None
        assert (await other.documents.get("test", "a")).value["by"] == "one"
        assert await other.documents.delete("test", "a")
        assert await one.documents.get("test", "a") is None


async def test_what_two_write_over_each_other_makes_no_deadlock(emptied, services):
    # The server finds a deadlock out by itself; on a slow machine the other writes for longer than two seconds.
    patient = replace(emptied, busy_timeout_ms=60_000)
    async with PostgresStore(patient, services) as one, PostgresStore(patient, services) as other:
        for round_ in range(10):
            for n in range(200):
                one.executions.record(execution(n, intent=f"one {round_}"))
                other.executions.record(execution(199 - n, intent=f"other {round_}"))
                one.documents.put_soon("test", f"{n}", {})
                other.documents.put_soon("test", f"{199 - n}", {})
            await asyncio.gather(*(s.documents.put("test", "last", {}) for s in (one, other)))
        page = await one.executions.find(ExecutionQuery(scope=EVERYONE))
        (row,) = await other.executions.activity(ExecutionQuery(scope=EVERYONE))
        assert (page.total, row.executions) == (200, 200)
        assert (await one.documents.get("test", "7")).version == 20
    assert services.log.lines == []


async def test_two_who_prune_at_once_count_each_execution_once(emptied):
    async with PostgresStore(emptied) as one, PostgresStore(emptied) as other:
        for n in range(900):
            one.executions.record(execution(n))
        await one.traces.append([ended(1, execution(1).id)])
        before = execution(800).started_at
        gone = await asyncio.gather(one.executions.prune(before=before), other.executions.prune(before=before))
        assert sum(gone) == 800
        assert (await other.executions.find(ExecutionQuery(scope=EVERYONE))).total == 100
        assert not await other.traces.of(execution(1).id, EVERYONE)


async def test_what_runs_inside_of_nothing_goes_with_its_age(emptied):
    async with PostgresStore(emptied) as store:
        for n in range(300):
            store.executions.record(execution(n, parent="gone"))
        assert await store.executions.prune(before=execution(250).started_at) == 0
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 50


async def test_what_is_old_is_deleted_by_itself(emptied, services):
    now = datetime.now(UTC)
    async with PostgresStore(emptied) as store:
        for n in range(10):
            store.executions.record(execution(n, started_at=now - timedelta(days=n, minutes=1)))
    for limits, left in (({"keep_days": 7}, 7), ({"keep_days": 0, "keep_bytes": 1}, 0)):
        settings = Settings(url=emptied.url, schema=emptied.schema, **{"keep_bytes": 0, **limits})
        async with PostgresStore(settings, services) as store:
            assert await store._housekeeping.tidy() == {7: 3, 0: 7}[left]
            assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == left
    assert [event for _, event, _ in services.log.lines] == ["store deleted old executions"] * 2


async def test_housekeeping_that_finds_no_server_says_nothing_more(server, services, monkeypatch):
    async with PostgresStore(Settings(url=server.url), services) as store:
        await asyncio.to_thread(server.stop)
        with pytest.raises(StoreError):
            await store._housekeeping.tidy()
        await store._housekeeping._keep_house()
    assert [event for _, event, _ in services.log.lines] == ["store cannot write"]


async def test_what_has_expired_is_deleted_when_something_is_written(emptied, sql):
    async with PostgresStore(emptied) as store:
        await store.documents.put("test", "first", {})
        past = datetime.now(UTC) - timedelta(seconds=1)
        for n in range(30):
            store.documents.put_soon("test", f"{n}", {}, marks={"state": "open"}, expires_at=past)
        await store.documents.put("other", "a", {})
        assert sql("SELECT count(*) FROM document_mark").fetchone() == (30,)
        store.documents._next_sweep = 0.0
        await store.documents.put("other", "a", {})
        assert sql("SELECT count(*) FROM document").fetchone() == (2,)
        assert sql("SELECT count(*) FROM document_mark").fetchone() == (0,)
        assert store.documents._next_sweep > time.monotonic()
