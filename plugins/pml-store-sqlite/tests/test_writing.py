from __future__ import annotations

import asyncio
import sqlite3
import statistics
import subprocess
import sys
import time
from contextlib import closing

import pytest

from pml_hookspecs import ExecutionQuery, RawObject, Scope, encode, replace
from pml_store_sqlite import Settings, SqliteStore, StoreError
from pml_testing.records import ended, execution, tools
from pml_testing.store_totals import assert_sees_all

pytestmark = pytest.mark.anyio
EVERYONE = Scope(principals=None)


def at(path, services=None, **more):
    return SqliteStore(Settings(path=str(path), **more), services)


def rows_in(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM execution").fetchone()[0]


async def until(condition, timeout_s=10.0):
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in a thread, a file or another process
            await asyncio.sleep(0.005)


def lines(services, level):
    return [(event, fields) for at_level, event, fields in services.log.lines if at_level == level]


async def test_recording_costs_the_event_loop_next_to_nothing(path):
    taken = []
    async with at(path) as store:
        for n in range(5000):
            record = execution(n, response=RawObject(b'{"content":[]}'))
            start = time.perf_counter()
            store.executions.record(record)
            taken.append(time.perf_counter() - start)
    assert statistics.median(taken) <= 3e-6


async def test_what_is_recorded_is_in_the_file_soon_without_being_asked_for(path):
    async with at(path) as store:
        await store.executions.put(execution(0))
        store.executions.record(execution(1))
        await until(lambda: rows_in(path) == 2)


async def test_the_writer_sleeps_while_nothing_happens(path):
    async with at(path, flush_interval_ms=1) as store:
        await store.executions.put(execution(0))
        await until(lambda: not store._writer._busy and not store._writer._wake.is_set())
        before = time.process_time()
        await asyncio.sleep(0.3)
        assert time.process_time() - before < 0.05


async def test_a_task_that_waits_does_not_wait_for_the_flush_interval(path):
    async with at(path, flush_interval_ms=90) as store:
        await store.executions.put(execution(0))
        taken = []
        for n in range(9):
            store.executions.record(execution(n))
            start = time.perf_counter()
            await store.executions.put(execution(n + 100))
            taken.append(time.perf_counter() - start)
        assert statistics.median(taken) < 0.05


async def test_a_full_queue_drops_and_counts(path, services):
    store = at(path, services, queue_rows=10)
    for n in range(15):
        store.executions.record(execution(n))
    assert (await store.health())["drops"] == 5
    async with store:
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 10
        await store.executions.put(execution(20))
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 11
        assert (await store.health())["queued"] == 0


async def test_a_closed_store_refuses_and_counts(path):
    async with at(path) as store:
        pass
    store.executions.record(execution(1))
    assert (await store.health())["drops"] == 1
    with pytest.raises(StoreError, match="is closed; use the store only"):
        await store.executions.put(execution(1))
    with pytest.raises(StoreError, match="is closed"):
        await store.executions.find(ExecutionQuery(scope=EVERYONE))


async def test_a_store_not_entered_refuses(path):
    with pytest.raises(StoreError, match="is closed"):
        await at(path).executions.put(execution(1))
    await at(path).__aexit__(None, None, None)


async def test_a_closing_that_is_cancelled_writes_all_the_same(path):
    store = at(path)
    await store.__aenter__()
    for n in range(3000):
        store.executions.record(execution(n))
    leaving = asyncio.ensure_future(store.__aexit__(None, None, None))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert rows_in(path) == 3000


RECORD_AND_WAIT = """
import asyncio, sys, time
from pml_store_sqlite import Settings, SqliteStore
from pml_testing.records import execution

async def main():
    async with SqliteStore(Settings(path=sys.argv[1])) as store:
        for n in range(100):
            store.executions.record(execution(n))
        await asyncio.sleep(0.5)
        print("recorded", flush=True)
        time.sleep(60)

asyncio.run(main())
"""


def test_what_was_recorded_half_a_second_ago_survives_a_kill(path):
    with subprocess.Popen(
        [sys.executable, "-c", RECORD_AND_WAIT, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "recorded\n"
        process.kill()
    assert rows_in(path) == 100


async def test_a_row_that_cannot_be_stored_is_lost_alone_counted_and_said_once(path, services):
    async with at(path, services) as store:
        for n in range(100):
            store.executions.record(execution(n, request={"no": object()}) if n % 10 == 0 else execution(n))
        await store.executions.put(execution(1))
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 90
        assert (await store.health())["unwritable"] == 10
    ((event, fields),) = lines(services, "error")
    assert event == "execution cannot be stored"
    assert fields["execution"] == execution(0).id
    assert "object" in fields["error"]


async def test_a_row_that_cannot_be_stored_does_not_touch_what_others_wait_for(path):
    async with at(path) as store:
        done = await asyncio.gather(
            store.executions.put(execution(1)),
            store.executions.put(execution(2, request={"no": object()})),
            store.executions.put(execution(3, started_at=execution(3).started_at.replace(tzinfo=None))),
            store.executions.put(execution(4, duration_ms="long")),
            store.catalog.replace("files", "v1", tools(["read"])),
            store.executions.put(execution(5)),
            return_exceptions=True,
        )
        assert [type(answer) for answer in done] == [
            type(None),
            TypeError,
            TypeError,
            TypeError,
            type(None),
            type(None),
        ]
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 2
        assert len(await store.catalog.entries("files", "v1")) == 1


async def test_a_replacement_that_fails_leaves_the_tools_that_were_there(path):
    async with at(path) as store:
        await store.catalog.replace("files", "v1", tools(["read", "write"]))
        bad = replace(tools(["zip"])[0], definition={"no": object()})
        with pytest.raises(TypeError):
            await store.catalog.replace("files", "v1", [*tools(["copy"]), bad])
        assert [e.name for e in await store.catalog.entries("files", "v1")] == ["read", "write"]


async def test_a_tool_named_twice_is_kept_once(path):
    async with at(path) as store:
        await store.catalog.replace("files", "v1", [*tools(["read"]), *tools(["read"])])
        assert len(await store.catalog.entries("files", "v1")) == 1


async def test_a_log_that_fails_does_not_stop_the_writer(path, services):
    def fail(event, **fields):
        raise ValueError("I/O operation on closed file")

    services.log.error = fail
    async with at(path, services) as store:
        store.executions.record(execution(1, request={"no": object()}))
        await store.executions.put(execution(2))
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 1


async def test_a_large_body_goes_away_when_its_execution_is_replaced(path):
    async with at(path) as store:
        await store.executions.put(execution(1, response="x" * 100_000, request={"a": "y" * 100_000}))
        await store.executions.put(execution(1, response="x" * 50_000))
        await store.executions.put(execution(2))
    with closing(sqlite3.connect(path)) as connection:
        bodies = connection.execute("SELECT part, size_bytes, length(deflated) < 1000 FROM execution_body").fetchall()
    assert bodies == [("response", 50_002, 1)]


async def test_durations_are_stored_as_whole_milliseconds(path):
    async with at(path) as store:
        await store.executions.put(execution(1, duration_ms=43.67673300000024))
        found = await store.executions.get(execution(1).id, EVERYONE)
    assert (found.duration_ms, type(found.duration_ms)) == (44, int)


async def test_the_result_of_a_tool_is_not_decoded_on_its_way_in(path):
    async with at(path) as store:
        await store.executions.put(execution(1, response=RawObject(b'{"not":json'), request=RawObject(b'{"nor":this')))
        found = await store.executions.get(execution(1).id, EVERYONE)
    assert (found.response.raw, found.request.raw) == (b'{"not":json', b'{"nor":this')


@pytest.mark.parametrize(("asked_for", "pragma"), [("FULL", 2), ("NORMAL", 1)])
async def test_writes_are_synchronised_as_asked_for(path, asked_for, pragma):
    seen = []
    async with at(path, synchronous=asked_for) as store:
        await store._writer.write(apply=lambda c: seen.append(c.execute("PRAGMA synchronous").fetchone()[0]))
    assert seen == [pragma]


@pytest.mark.parametrize("field", ["attributes", "end_attributes"])
async def test_attributes_that_are_equal_for_python_and_not_in_json_are_kept_apart(path, field):
    given = [{"a": value} for value in (1, True, 1.0, "1", "true", None, [1], [True], {"b": 1}, {"b": True}, "1")]
    async with at(path) as store:
        await store.traces.append([_with(ended(n), field, attributes) for n, attributes in enumerate(given)])
    with closing(sqlite3.connect(path)) as connection:
        stored = connection.execute(f"SELECT {field} FROM span ORDER BY start_ns").fetchall()
    assert [text for (text,) in stored] == [encode(attributes) for attributes in given]


def _with(finished, field, attributes):
    if field == "end_attributes":
        return replace(finished, attributes=attributes)
    return replace(finished, span=replace(finished.span, attributes=attributes))


async def test_what_is_not_there_is_null_in_the_file(path):
    async with at(path) as store:
        await store.executions.put(execution(0, duration_ms=None, request={}, response=None))
        await store.traces.append([replace(ended(0), attributes={})])
    with closing(sqlite3.connect(path)) as connection:
        columns = "parent, duration_ms, cost_micros, request, response, failure, tool_calls"
        assert connection.execute(f"SELECT {columns} FROM execution").fetchall() == [(None,) * 7]
        assert connection.execute("SELECT parent_id, end_attributes FROM span").fetchall() == [(None, None)]


async def test_many_more_rows_than_go_into_one_statement_are_written(path):
    async with at(path) as store:
        for n in range(1100):
            store.executions.record(execution(n))
        await store.traces.append([ended(n) for n in range(1100)])
    with closing(sqlite3.connect(path)) as connection:
        counts = connection.execute("SELECT (SELECT count(*) FROM execution), (SELECT count(*) FROM span)").fetchone()
    assert counts == (1100, 1100)


async def test_each_list_has_all_that_was_recorded_before_it_however_far_the_writer_is(path):
    async with at(path, flush_interval_ms=1) as store:
        await assert_sees_all(store)
