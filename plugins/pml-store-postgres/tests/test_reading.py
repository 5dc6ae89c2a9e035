from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from pml_hookspecs import ExecutionQuery, Scope, Status
from pml_store_postgres import PostgresStore, Settings, StoreError, queries, sums
from pml_store_postgres.conditions import FAILED, LAST
from pml_store_postgres.database import Database
from pml_store_postgres.rows import BEGINNING, DAY, micros
from pml_stores.paging import MOST_COUNTED
from pml_testing.fakes import EPOCH
from pml_testing.records import ALICE, EVERYONE, SHARED, ended, execution, written
from pml_testing.store_totals import assert_leaves_out, over_days

pytestmark = pytest.mark.anyio
ROWS = 20_000


@pytest.fixture(scope="module")
def filled(fill):
    """Two weeks of executions, a minute apart."""
    return fill(ROWS, timedelta(minutes=1))


USER = Scope(principals=frozenset({"user7"}))
SEVERAL = Scope(principals=frozenset({"user7", "user8"}), agents=frozenset({"agent2"}))
MOST_USERS = 64
LATE = EPOCH + timedelta(minutes=ROWS - 1500, seconds=7)


@pytest.mark.parametrize("scope", [EVERYONE, USER, SEVERAL], ids=["everyone", "one", "several"])
@pytest.mark.parametrize(
    ("filters", "indexes"),
    [
        ({}, "time|principal"),
        ({"top_level": True, "include_dry_runs": False, "trigger": "mcp"}, "time|principal"),
        ({"statuses": frozenset({"ok", "error"})}, "time|principal"),
        ({"agent": "agent7"}, "agent|principal"),
        ({"statuses": FAILED}, "failed|principal"),
        ({"statuses": frozenset({"running"})}, "open|principal"),
    ],
    ids=["all", "trigger", "statuses", "agent", "failed", "running"],
)
def test_pages_come_from_an_index_and_only_what_is_given_out_is_read(explained, scope, filters, indexes):
    page = queries.find(explained, ExecutionQuery(scope=scope, since=LATE, limit=5, **filters))
    assert page.total >= len(page.items)
    assert "Seq Scan on execution" not in "\n".join(explained.plans)
    plan = explained.plans[-1]
    assert any(f"execution_by_{name}" in plan or f"execution_{name}" in plan for name in indexes.split("|")), plan
    assert "execution_pkey" in plan


def test_somebody_who_may_see_agents_reads_what_these_did_themselves(explained):
    queries.find(explained, ExecutionQuery(scope=SEVERAL, since=LATE, limit=5))
    plan = explained.plans[-1]
    for lane in ("execution_by_principal", "execution_by_own_agent"):
        assert f"Index Only Scan Backward using {lane}" in plan
    assert "Index Only Scan Backward using execution_by_time" not in plan
    # Of each lane no more is read than the page takes.
    assert "Merge Append" in plan


def test_a_page_of_several_lanes_is_whole_whatever_is_in_two_of_them_or_left_out(explained):
    # Of all that this principal has, the agents are seen besides.
    scope = Scope(principals=frozenset({"user8"}), agents=frozenset(f"agent{n}" for n in (8, 18, 28, 38, 48)))

    def page(limit, without=()):
        query = ExecutionQuery(scope=scope, since=LATE - timedelta(days=9), limit=limit)
        return queries.find(explained, query, [record.id for record in without])

    newest = page(100).items
    twice = [record for record in newest if record.principal == "user8"]
    assert all(record.as_agent and record.agent in scope.agents for record in twice)
    for without in ([], newest[:90], twice, newest):
        found = page(5, without)
        assert found.items[: len(newest) - len(without)] == [r for r in newest if r not in without][:5]
        assert (len(found.items), found.total) == (5, page(5).total - len(without))
        assert found.cursor is not None


@pytest.mark.parametrize("target", ["web:*", "web:get"])
def test_the_tools_of_a_server_that_does_little_are_not_looked_for_among_all(explained, target):
    queries.find(explained, ExecutionQuery(scope=EVERYONE, target=target))
    plan = explained.plans[-1]
    assert "using execution_by_server" in plan
    assert "execution_by_time" not in plan


def test_only_what_takes_one_way_whatever_the_values_is_planned_once(explained):
    one, many = Scope(principals=frozenset({"user7"})), Scope(principals=frozenset(f"user{n}" for n in range(40)))
    asked = [
        (ExecutionQuery(scope=EVERYONE, since=LATE), True),
        (ExecutionQuery(scope=one, since=LATE), True),
        (ExecutionQuery(scope=EVERYONE, since=LATE, trigger="schedule"), False),
        (ExecutionQuery(scope=SEVERAL, since=LATE, top_level=True), True),
        (ExecutionQuery(scope=many, since=LATE), False),
        (ExecutionQuery(scope=one, since=LATE, agent="agent7"), False),
        (ExecutionQuery(scope=EVERYONE, since=LATE, agent="agent7"), True),
        (ExecutionQuery(scope=EVERYONE, since=LATE, target="files:*"), False),
        (ExecutionQuery(scope=EVERYONE, since=LATE, statuses=frozenset({"error", "denied"})), True),
        (ExecutionQuery(scope=one, since=LATE, statuses=frozenset({"error", "denied"})), False),
        (ExecutionQuery(scope=EVERYONE, since=LATE, statuses=frozenset({"error", "ok"})), False),
    ]
    for query, kept in asked:
        queries.find(explained, query)
        # A plan that is kept has the numbers of values.
        assert ("(started_at >= $" in explained.plans[-1]) == kept
    queries.find(explained, asked[0][0])
    queries.get(explained, execution(1).id, ALICE, transcript=False)
    assert "id = '" in explained.plans[-1]


async def test_what_is_left_out_is_neither_listed_nor_counted(emptied):
    async with PostgresStore(emptied) as store:
        await written(store, over_days())
        with Database(emptied).open_reader() as connection:
            assert_leaves_out(queries, connection)


def test_the_newest_are_not_sorted_out_of_all(explained):
    queries.find(explained, ExecutionQuery(scope=EVERYONE, limit=5))
    first = queries.find(explained, ExecutionQuery(scope=EVERYONE, limit=5))
    queries.find(explained, ExecutionQuery(scope=EVERYONE, limit=5, cursor=first.cursor))
    for plan in explained.plans:
        assert "Index Only Scan Backward using execution_by_time" in plan
    assert "Index Cond: (ROW(started_at, id) < ROW(" in explained.plans[-1]


@pytest.mark.parametrize("scope", [EVERYONE, USER, SEVERAL], ids=["everyone", "one", "several"])
def test_whole_days_and_hours_are_counted_from_sums_and_the_ends_through_an_index(explained, scope):
    query = ExecutionQuery(scope=scope, since=LATE - timedelta(days=9), until=LATE, top_level=True)
    queries.find(explained, query)
    sums.activity(explained, query)
    sums.totals(explained, query, "day")
    for plan in explained.plans:
        assert "execution_sum_day_pkey" in plan
        assert "execution_sum_hour_pkey" in plan
        # Which has one row.
        assert "Seq Scan" not in plan.replace("Seq Scan on summed ", "")
        assert "Index" in plan


@pytest.mark.parametrize(
    ("hour", "minute", "left_over"),
    [
        (2, 10, [("-", 1, 0, 2), ("-", 0, 2, 2 + 10 / 60)]),
        (2, 50, [("-", 1, 0, 3), ("", 0, 2 + 50 / 60, 3)]),
        (22, 10, [("", 1, 22, 24), ("-", 0, 22, 22 + 10 / 60)]),
        (0, 0, []),
    ],
)
def test_of_the_first_day_and_the_first_hour_the_lesser_part_is_gone_through(hour, minute, left_over):
    day = micros(EPOCH) // DAY
    since = day * DAY + hour * sums.HOUR + minute * 60_000_000
    found = []
    for sign, grain, *ends in sums.pieces(since, LAST):
        start, end = (at - day * 24 if grain else (at - day * DAY) / sums.HOUR for at in ends)
        if grain < sums.DAY_HOURS:
            found.append((sign, grain, start, end))
    assert found == left_over


@pytest.mark.parametrize(("by", "facet"), [("tool", 1), ("server", 1), ("key", 2)])
def test_totals_of_everyone_by_tool_and_key_come_from_sums(explained, by, facet):
    (total,) = sums.totals(explained, ExecutionQuery(scope=EVERYONE), by).values()
    assert total.executions == ROWS
    (plan,) = explained.plans
    assert f"facet = {facet}" in plan
    assert " on execution " not in plan


def test_a_search_goes_through_the_index_of_words_and_the_days_asked_for(explained):
    query = ExecutionQuery(scope=EVERYONE, since=LATE, text="word7")
    found = queries.find(explained, query)
    assert 0 < found.total < 200
    count, page = explained.plans[-2:]
    assert "Bitmap Index Scan on execution_by_word" in count
    assert "execution_by_word" not in page
    assert "execution_pkey" in page
    assert count.count("word7") <= 2 * 2 * 40, "of each of the days, for each of the users"


def test_a_search_for_what_is_everywhere_sorts_nothing(explained):
    with explained.connection.transaction():
        found = queries.find(explained, ExecutionQuery(scope=EVERYONE, text="every", limit=5))
    assert (found.total, len(found.items)) == (MOST_COUNTED, 5)
    assert "Index Scan Backward using execution_by_time" in explained.plans[-1]


def test_others_are_looked_up_by_their_keys(explained):
    # Tables without a row are read whole, whatever indexes they have.
    explained.connection.execute("SET enable_seqscan = off")
    queries.get(explained, execution(1).id, ALICE, transcript=True)
    queries.spans(explained, execution(1).id, SHARED)
    queries.find(explained, ExecutionQuery(scope=ALICE, parent=execution(1).id))
    queries.find(explained, ExecutionQuery(scope=EVERYONE, parent="00000003"))
    plans = "\n".join(explained.plans)
    for index in ("execution_pkey", "execution_transcript_pkey", "execution_by_parent"):
        assert index in plans
    assert "Seq Scan on execution" not in plans


async def test_a_hundred_questions_at_once_are_answered(emptied):
    async with PostgresStore(emptied) as store:
        await store.executions.put(execution(1))
        pages = await asyncio.gather(*(store.executions.find(ExecutionQuery(scope=ALICE)) for _ in range(100)))
    assert [page.total for page in pages] == [1] * 100


@pytest.mark.seed("GAP-16")
async def test_simulated_executions_succeed_and_skipped_ones_fail(emptied):
    async with PostgresStore(emptied) as store:
        for n, status in enumerate((Status.SIMULATED, Status.SKIPPED, Status.INPUT_REQUIRED)):
            await store.executions.put(execution(n, status=status))
        (row,) = await store.executions.activity(ExecutionQuery(scope=ALICE))
    assert (row.executions, row.succeeded, row.failed, row.running) == (3, 1, 2, 0)


async def test_many_principals_in_one_scope_are_no_problem(emptied):
    many = Scope(principals=frozenset({"alice", *(f"user {n}" for n in range(50_000))}))
    async with PostgresStore(emptied) as store:
        await store.executions.put(execution(1))
        assert (await store.executions.find(ExecutionQuery(scope=many))).total == 1


@pytest.mark.parametrize("name", ["since", "until"])
async def test_a_time_without_a_zone_is_refused(emptied, name):
    async with PostgresStore(emptied) as store:
        with pytest.raises(ValueError, match=f"`{name}` has no time zone"):
            await store.executions.find(ExecutionQuery(scope=ALICE, **{name: EPOCH.replace(tzinfo=None)}))


async def test_the_system_sees_spans_of_executions_that_were_not_recorded(emptied):
    async with PostgresStore(emptied) as store:
        await store.traces.append([ended(1, execution(1).id)])
        assert len(await store.traces.of(execution(1).id, EVERYONE)) == 1
        assert not await store.traces.of(execution(1).id, ALICE)


async def test_a_read_that_is_cancelled_harms_nobody(emptied):
    async with PostgresStore(emptied) as store:
        await store.executions.put(execution(1))
        readings = [asyncio.ensure_future(store.executions.get(execution(1).id, ALICE)) for _ in range(20)]
        await asyncio.sleep(0)
        for reading in readings[::2]:
            reading.cancel()
        done = await asyncio.gather(*readings, return_exceptions=True)
    assert done[1::2] == [execution(1)] * 10


def test_readers_cannot_write(explained):
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        explained.connection.execute("DELETE FROM execution")


@pytest.mark.parametrize("at", [10**30, -(10**30), 2**63, -(2**63)])
@pytest.mark.parametrize("text", [None, "anything"])
async def test_a_forged_cursor_with_a_time_that_is_none_is_refused(emptied, at, text):
    async with PostgresStore(emptied) as store:
        await store.executions.put(execution(1))
        cursor = b64encode(json.dumps(["pml-postgres-1", at, "x"]).encode()).decode()
        with pytest.raises(ValueError, match="`cursor` is not one that this store gave"):
            await store.executions.find(ExecutionQuery(scope=ALICE, cursor=cursor, text=text))


async def test_a_forged_cursor_of_documents_with_a_time_that_is_none_is_refused(emptied):
    async with PostgresStore(emptied) as store:
        for n in range(2):
            await store.documents.put("test", str(n), {})
        cursor = (await store.documents.find("test", limit=1)).cursor
        mark, _, key = json.loads(b64decode(cursor.translate({45: "+", 95: "/"}) + "=" * (-len(cursor) % 4)))
        for at in (10**30, -(10**30), "1"):
            forged = b64encode(json.dumps([mark, at, key]).encode()).decode()
            with pytest.raises(ValueError, match="`cursor` is not one that this store gave"):
                await store.documents.find("test", cursor=forged)


@pytest.mark.parametrize(("told", "kept"), [(float("inf"), 1e9), (float("-inf"), -1e9), (float("nan"), None)])
async def test_a_cost_that_is_no_amount_loses_no_record(emptied, told, kept):
    async with PostgresStore(emptied) as store:
        await store.executions.put(execution(1, cost_usd=told, tokens_in=-5))
        record = await store.executions.get(execution(1).id, ALICE)
        assert (record.cost_usd, record.tokens_in) == (kept, 0)
        (total,) = await store.executions.totals(ExecutionQuery(scope=ALICE), "agent")
        assert (total.executions, total.cost_usd, total.tokens_in) == (1, kept or 0, 0)


def test_days_to_keep_have_a_bound():
    """Of more than that there is no time to count back to."""
    (days,) = (field for field in fields(Settings) if field.name == "keep_days")
    assert datetime.now(UTC) - timedelta(days=days.metadata["le"])


async def test_text_is_found_with_decades_between_the_first_and_the_last(emptied):
    """There may be one with a wrong time; it does not make each day since then be asked for."""
    async with PostgresStore(emptied) as store:
        await store.executions.put(execution(1, intent="zebra", started_at=BEGINNING))
        await store.executions.put(execution(2, intent="zebra", started_at=datetime.now(UTC)))
        many = Scope(principals=frozenset({"alice", *(f"user {n}" for n in range(MOST_USERS - 1))}))
        for scope in (EVERYONE, ALICE, many):
            page = await store.executions.find(ExecutionQuery(scope=scope, text="zebra", limit=1))
            assert (page.total, [record.id for record in page.items]) == (2, [execution(2).id])
            (total,) = await store.executions.totals(ExecutionQuery(scope=scope, text="zebra"), "agent")
            assert total.executions == 2


async def test_text_is_found_on_thousands_of_days(emptied):
    """What is asked of the index of words is more than PostgreSQL takes at once."""
    days, words = 3000, " ".join(f"{letter}{'x' * 300}" for letter in "abc")
    many = Scope(principals=frozenset({"alice", *(f"user {n}" for n in range(MOST_USERS - 1))}))
    async with PostgresStore(emptied) as store:
        for n in range(days):
            at = BEGINNING + timedelta(days=2 * n, hours=n % 24)
            store.executions.record(execution(n, intent=words, principal=f"user {n % 100}", started_at=at))
        for scope, expected in ((EVERYONE, days), (many, days // 100 * (MOST_USERS - 1))):
            query = ExecutionQuery(scope=scope, text=words, limit=3)
            page = await store.executions.find(query)
            assert (page.total, len(page.items)) == (MOST_COUNTED, 3)
            (total,) = await store.executions.totals(query, "agent")
            assert total.executions == expected
        since, until = BEGINNING + timedelta(hours=5), BEGINNING + timedelta(days=2 * days - 2, hours=5)
        query = ExecutionQuery(scope=EVERYONE, text=words, since=since, until=until)
        (total,) = await store.executions.totals(query, "agent")
        assert total.executions == days - 2


async def test_a_server_that_fails_a_new_reader_is_said_in_words(emptied, monkeypatch):
    def fail(self, connection, **_how):
        connection.execute("SELECT 1 / 0")

    async with PostgresStore(emptied) as store:
        await store.executions.put(execution(1))
        with monkeypatch.context() as patch:
            patch.setattr(Database, "_set_up", fail)
            with pytest.raises(StoreError, match="cannot be used \\(division by zero\\)"):
                await store.executions.get(execution(1).id, ALICE)
        assert await store.executions.get(execution(1).id, ALICE) == execution(1)
