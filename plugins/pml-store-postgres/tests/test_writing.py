from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time

import pytest

from pml_hookspecs import ExecutionQuery, RawObject, Scope, encode, replace
from pml_store_postgres import PostgresStore, Settings, StoreError, conditions
from pml_store_postgres.database import ServerSession
from pml_stores.sql.totals import TABLE
from pml_stores.sums import DAY, HOUR
from pml_testing.records import EVERYONE, ended, execution, tools
from pml_testing.store_totals import (
    assert_adds_up_as_hours_pass,
    assert_sees_all,
)

pytestmark = pytest.mark.anyio


def at(emptied, services=None, **more):
    return PostgresStore(Settings(url=emptied.url, schema=emptied.schema, **more), services)


async def until(condition, timeout_s=10.0):
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in a thread
            await asyncio.sleep(0.005)


def lines(services, level):
    return [(event, fields) for at_level, event, fields in services.log.lines if at_level == level]


async def test_recording_costs_the_event_loop_next_to_nothing(emptied):
    taken = []
    async with at(emptied) as store:
        for n in range(5000):
            record = execution(n, response=RawObject(b'{"content":[]}'))
            start = time.perf_counter()
            store.executions.record(record)
            taken.append(time.perf_counter() - start)
    assert statistics.median(taken) <= 3e-6


async def test_what_is_recorded_is_written_soon_without_being_asked_for(emptied, sql):
    async with at(emptied) as store:
        await store.executions.put(execution(0))
        store.executions.record(execution(1))
        await until(lambda: sql("SELECT count(*) FROM execution").fetchone() == (2,))


async def test_the_writer_sleeps_while_nothing_happens(emptied):
    async with at(emptied, flush_interval_ms=1) as store:
        await store.executions.put(execution(0))
        await until(lambda: not store._writer._busy and not store._writer._wake.is_set())
        before = time.process_time()
        await asyncio.sleep(0.3)
        assert time.process_time() - before < 0.05


async def test_many_who_wait_are_written_in_few_transactions(emptied, monkeypatch):
    transactions, transaction = [], ServerSession.transaction
    monkeypatch.setattr(ServerSession, "transaction", lambda *given: transactions.append(None) or transaction(*given))
    async with at(emptied) as store:
        await asyncio.gather(*(store.executions.put(execution(n)) for n in range(500)))
        versions = await asyncio.gather(*(store.documents.put("test", f"{n}", {}) for n in range(500)))
    assert versions == [1] * 500
    assert len(transactions) < 20


async def test_a_full_queue_drops_and_counts(emptied, services):
    store = at(emptied, services, queue_rows=10)
    for n in range(15):
        store.executions.record(execution(n))
        store.documents.put_soon("test", f"{n}", {})
    assert (await store.health())["drops"] == 20
    async with store:
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 5
        assert (await store.documents.find("test")).total == 5
        assert (await store.health())["queued"] == 0


async def test_a_closed_store_refuses_and_counts(emptied):
    async with at(emptied) as store:
        pass
    store.executions.record(execution(1))
    assert (await store.health())["drops"] == 1
    with pytest.raises(StoreError, match="is closed; use the store only"):
        await store.executions.put(execution(1))
    with pytest.raises(StoreError, match="is closed"):
        await store.executions.find(ExecutionQuery(scope=EVERYONE))


async def test_health_says_where_and_how_much(emptied):
    async with at(emptied) as store:
        health = await store.health()
    assert health["database"].endswith('schema "test ""größe"" %s"')
    assert health["size_bytes"] > 100_000
    assert (await at(emptied).health())["size_bytes"] is None


async def test_a_store_not_entered_refuses(emptied):
    with pytest.raises(StoreError, match="is closed"):
        await at(emptied).executions.put(execution(1))
    await at(emptied).__aexit__(None, None, None)


async def test_a_closing_that_is_cancelled_writes_all_the_same(emptied, sql):
    store = at(emptied)
    await store.__aenter__()
    for n in range(1000):
        store.executions.record(execution(n))
    leaving = asyncio.ensure_future(store.__aexit__(None, None, None))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    store._writer._thread.join(10)
    assert not store._writer._thread.is_alive()
    assert sql("SELECT count(*) FROM execution").fetchone() == (1000,)


RECORD_AND_WAIT = """
import asyncio, sys, time
from pml_store_postgres import Settings, PostgresStore
from pml_testing.records import execution

async def main():
    async with PostgresStore(Settings(url=sys.argv[1], schema=sys.argv[2])) as store:
        await store.executions.put(execution(0))
        for n in range(1, 100):
            store.executions.record(execution(n))
        await asyncio.sleep(0.5)
        print("recorded", flush=True)
        time.sleep(60)

asyncio.run(main())
"""


def test_what_was_recorded_half_a_second_ago_survives_a_kill(emptied, sql):
    command = [sys.executable, "-c", RECORD_AND_WAIT, emptied.url, emptied.schema]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "recorded\n"
        process.kill()
    assert sql("SELECT count(*) FROM execution").fetchone() == (100,)


async def test_a_row_that_cannot_be_stored_is_lost_alone_counted_and_said_once(emptied, services):
    async with at(emptied, services) as store:
        for n in range(100):
            store.executions.record(execution(n, request={"no": object()}) if n % 10 == 0 else execution(n))
        await store.executions.put(execution(1))
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 90
        assert (await store.health())["unwritable"] == 10
    ((event, fields),) = lines(services, "error")
    assert (event, fields["execution"]) == ("execution cannot be stored", execution(0).id)
    assert "object" in fields["error"]


async def test_a_row_that_cannot_be_stored_does_not_touch_what_others_wait_for(emptied):
    naive = execution(3).started_at.replace(tzinfo=None)
    async with at(emptied) as store:
        done = await asyncio.gather(
            store.executions.put(execution(1)),
            store.executions.put(execution(2, request={"no": object()})),
            store.executions.put(execution(3, started_at=naive)),
            store.executions.put(execution(4, duration_ms="long")),
            store.catalog.replace("files", "v1", tools(["read"])),
            store._writer.write(apply=lambda connection: connection.execute("SELECT 1 / 0")),
            store.executions.put(execution(5)),
            return_exceptions=True,
        )
        names = [type(answer).__name__ for answer in done]
        assert names == [
            "NoneType",
            "TypeError",
            "TypeError",
            "TypeError",
            "NoneType",
            "DivisionByZero",
            "NoneType",
        ]
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 2
        assert len(await store.catalog.entries("files", "v1")) == 1


async def test_a_replacement_that_fails_leaves_the_tools_that_were_there(emptied):
    async with at(emptied) as store:
        await store.catalog.replace("files", "v1", [*tools(["read", "write"]), *tools(["read"])])
        bad = replace(tools(["zip"])[0], definition={"no": object()})
        with pytest.raises(TypeError):
            await store.catalog.replace("files", "v1", [*tools(["copy"]), bad])
        assert [e.name for e in await store.catalog.entries("files", "v1")] == ["read", "write"]


async def test_a_log_that_fails_does_not_stop_the_writer(emptied, services):
    def fail(event, **fields):
        raise ValueError("I/O operation on closed file")

    services.log.error = fail
    async with at(emptied, services) as store:
        store.executions.record(execution(1, request={"no": object()}))
        await store.executions.put(execution(2))
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE))).total == 1


AWKWARD = ["a\0b", "\1", "\1\1\2\0", "half \ud83c a pair", "x" * 5000, "größe " * 1000, "'; --", "\\", ""]


@pytest.mark.parametrize("text", AWKWARD, ids=lambda text: ascii(text)[:20])
async def test_texts_that_postgresql_has_no_form_for_survive(emptied, text):
    """As a whole, but for lone surrogates, which come back as escapes, and the ends of overlong names."""
    record = execution(1, target=text, principal=text, agent=text, access_key=text, intent=text, as_agent=True)
    kept = text.encode("utf-8", "backslashreplace").decode()
    async with at(emptied) as store:
        await store.executions.put(record)
        found = await store.executions.get(record.id, Scope(principals=frozenset({text})))
        assert found.intent == kept
        for name in (found.target, found.principal, found.agent, found.access_key):
            assert name == kept if len(text) < 100 else name.startswith(kept[:300]) and len(name.encode()) <= 480
        query = ExecutionQuery(scope=Scope(principals=frozenset(), agents=frozenset({text})), agent=text, target=text)
        assert (await store.executions.find(query)).total == 1
        other = ExecutionQuery(scope=Scope(principals=frozenset({text + "!"})))
        assert (await store.executions.find(other)).total == 0
        (total,) = await store.executions.totals(ExecutionQuery(scope=EVERYONE), "agent")
        assert total.group == found.agent


def test_cleaned_texts_come_back_and_keep_their_order():
    given = ["", "\0", "\0\0", "\1", "\1\0", "\1\1", "\2", "a", "a\0", "a\0b", "a\1", "ä", "日", "😀"]
    assert [conditions.restored(conditions.clean(text)) for text in given] == given
    assert sorted(given) == sorted(given, key=conditions.clean)


async def test_a_word_longer_than_postgresql_takes_is_found(emptied):
    async with at(emptied) as store:
        await store.executions.put(execution(1, intent="日" * 1500))
        for text in ("日" * 10, "日" * 1500):
            assert (await store.executions.find(ExecutionQuery(scope=EVERYONE, text=text))).total == 1


async def test_large_bodies_and_transcripts_are_kept_deflated_and_go_with_their_execution(emptied, sql):
    transcript = [{"said": "x" * 100_000}]
    async with at(emptied) as store:
        first = execution(1, response="x" * 100_000, request={"a": "y" * 100_000}, transcript=transcript)
        await store.executions.put(first)
        sizes = "SELECT deflated, length(request) < 1000, length(response) < 1000 FROM execution"
        assert sql(sizes).fetchall() == [(3, True, True)]
        kept = "SELECT size_bytes > 100000, length(deflated) < 1000 FROM transcript"
        assert sql(kept).fetchall() == [(True, True)]
        await store.executions.put(execution(1, response="x" * 50_000))
        assert sql(kept).fetchall() == []
        assert sql("SELECT deflated FROM execution").fetchall() == [(2,)]


async def test_durations_are_stored_as_whole_milliseconds(emptied):
    async with at(emptied) as store:
        await store.executions.put(execution(1, duration_ms=43.67673300000024))
        found = await store.executions.get(execution(1).id, EVERYONE)
    assert (found.duration_ms, type(found.duration_ms)) == (44, int)


async def test_the_result_of_a_tool_is_not_decoded_on_its_way(emptied):
    async with at(emptied) as store:
        await store.executions.put(execution(1, response=RawObject(b'{"not":json'), request=RawObject(b'{"nor":\xff')))
        found = await store.executions.get(execution(1).id, EVERYONE)
    assert (found.response.raw, found.request.raw) == (b'{"not":json', b'{"nor":\xff')


@pytest.mark.parametrize("field", ["attributes", "end_attributes"])
async def test_attributes_that_are_equal_for_python_and_not_in_json_are_kept_apart(emptied, sql, field):
    given = [{"a": value} for value in (1, True, 1.0, "1", "true", None, [1], [True], {"b": 1}, {"b": True}, "1")]
    async with at(emptied) as store:
        await store.traces.append([_with(ended(n), field, attributes) for n, attributes in enumerate(given)])
    stored = sql(f"SELECT {field} FROM span ORDER BY start_ns").fetchall()
    assert [text for (text,) in stored] == [encode(attributes) for attributes in given]


def _with(finished, field, attributes):
    if field == "end_attributes":
        return replace(finished, attributes=attributes)
    return replace(finished, span=replace(finished.span, attributes=attributes))


async def test_sums_are_those_of_the_rows_whatever_was_written(emptied, sql):
    async with at(emptied) as store:
        for n in range(1200):
            store.executions.record(execution(n % 700, status="running" if n < 600 else "ok", agent=f"a{n % 3}"))
        await store.executions.put(execution(1, principal="bob", cost_usd=1.5, started_at=execution(10**6).started_at))
        await store.executions.prune(before=execution(650).started_at)
    rows = sql("SELECT count(*), sum(duration_ms), coalesce(sum(cost_micros), 0) FROM execution").fetchone()
    for grain in (HOUR, DAY):
        checked = f"SELECT sum(executions), sum(duration_ms), sum(cost_micros) FROM {TABLE} WHERE grain = {grain}"
        assert sql(checked).fetchone() == rows
    stored = sql("SELECT size_bytes FROM stored WHERE part = 'execution'").fetchone()
    assert stored == sql("SELECT sum(size_bytes) FROM execution").fetchone()
    assert sql("SELECT count(*) FROM execution_total WHERE executions = 0").fetchone() == (0,)


async def test_totals_are_right_whatever_is_late_replaced_or_deleted(emptied):
    async def over(hour):
        pass

    async with at(emptied) as store:
        await assert_adds_up_as_hours_pass(store, over)


async def test_each_list_has_all_that_was_recorded_before_it_however_far_the_writer_is(emptied):
    async with at(emptied, flush_interval_ms=1) as store:
        await assert_sees_all(store)
