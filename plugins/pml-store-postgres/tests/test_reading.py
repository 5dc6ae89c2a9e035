from __future__ import annotations

import asyncio
import json
import re
from base64 import b64decode, b64encode
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from pml_hookspecs import ExecutionQuery, Scope, Status
from pml_store_postgres import PostgresStore, Settings, StoreError
from pml_store_postgres.conditions import BUILDER
from pml_store_postgres.database import Database
from pml_store_postgres.execution_rows import ExecutionRows
from pml_stores.sql.parts import PartRows
from pml_stores.sql.query_builder import FAILED
from pml_stores.values import BEGINNING, MOST_COUNTED
from pml_testing.fakes import EPOCH
from pml_testing.records import ALICE, EVERYONE, SHARED, ended, execution

pytestmark = pytest.mark.anyio
ROWS = 20_000
ROWS_OF = ExecutionRows()


@pytest.fixture(scope="module")
def filled(fill):
    """Two weeks of executions, a minute apart."""
    return fill(ROWS, timedelta(minutes=1))


USER = Scope(principals=frozenset({"user7"}))
SEVERAL = Scope(principals=frozenset({"user7", "user8"}), agents=frozenset({"agent2"}))
MOST_USERS = 64
LATE = EPOCH + timedelta(minutes=ROWS - 1500, seconds=7)


def of_page(explained):
    """The plan by which the page was looked for that was asked for last."""
    return [plan for plan in explained.plans if "Query Text: SELECT started_at, id FROM execution" in plan][-1]


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
    page = ROWS_OF.find(explained, ExecutionQuery(scope=scope, since=LATE, limit=5, **filters))
    assert page.total >= len(page.items)
    assert "Seq Scan on execution" not in "\n".join(explained.plans)
    plan = of_page(explained)
    assert any(f"execution_by_{name}" in plan or f"execution_{name}" in plan for name in indexes.split("|")), plan
    assert "execution_pkey" in explained.plans[-1] or not page.items


@pytest.mark.parametrize("target", ["web:*", "web:get"])
def test_the_tools_of_a_server_that_does_little_are_not_looked_for_among_all(explained, target):
    ROWS_OF.find(explained, ExecutionQuery(scope=EVERYONE, target=target))
    plan = of_page(explained)
    assert "using execution_by_server" in plan
    assert "execution_by_time" not in plan


def test_a_page_of_several_lanes_is_whole_whatever_is_in_two_of_them(explained):
    # Of all that this principal has, the agents are seen besides.
    scope = Scope(principals=frozenset({"user8"}), agents=frozenset(f"agent{n}" for n in (8, 18, 28, 38, 48)))

    def page(limit):
        return ROWS_OF.find(explained, ExecutionQuery(scope=scope, since=LATE - timedelta(days=9), limit=limit))

    newest = page(100).items
    assert all(record.as_agent and record.agent in scope.agents for record in newest if record.principal == "user8")
    assert len({record.id for record in newest}) == 100
    found = page(5)
    assert (found.items, found.total, found.cursor is not None) == (newest[:5], page(100).total, True)


def test_the_newest_are_not_sorted_out_of_all(explained):
    ROWS_OF.find(explained, ExecutionQuery(scope=EVERYONE, limit=5))
    first = ROWS_OF.find(explained, ExecutionQuery(scope=EVERYONE, limit=5))
    ROWS_OF.find(explained, ExecutionQuery(scope=EVERYONE, limit=5, cursor=first.cursor))
    pages = [plan for plan in explained.plans if "Query Text: SELECT started_at, id FROM execution" in plan]
    assert len(pages) == 3
    for plan in pages:
        assert "Index Only Scan Backward using execution_by_time" in plan
    assert "Index Cond: (ROW(started_at, id) < ROW(" in pages[-1]


@pytest.mark.parametrize("scope", [EVERYONE, USER, SEVERAL], ids=["everyone", "one", "several"])
def test_whole_days_and_hours_are_counted_from_sums_and_the_ends_through_an_index(explained, scope):
    query = ExecutionQuery(scope=scope, since=LATE - timedelta(days=9), until=LATE, top_level=True)
    ROWS_OF.find(explained, query)
    ROWS_OF.activity(explained, query)
    ROWS_OF.totals(explained, query, "day")
    summed = [plan for plan in explained.plans if "execution_total" in plan]
    assert len(summed) == 3
    for plan in summed:
        assert "execution_total_pkey" in plan
        assert "Seq Scan" not in plan


@pytest.mark.parametrize("by", ["tool", "server", "key"])
def test_totals_by_tool_and_key_come_from_what_is_kept(explained, by):
    for scope, number in ((EVERYONE, ROWS), (USER, ROWS // 40)):
        (total,) = ROWS_OF.totals(explained, ExecutionQuery(scope=scope), by).values()
        assert total.executions == number
    assert len(explained.plans) == 2
    assert not [plan for plan in explained.plans if " on execution " in plan]


def test_a_search_goes_through_the_index_of_words_and_the_days_asked_for(explained):
    query = ExecutionQuery(scope=EVERYONE, since=LATE, text="word7")
    found = ROWS_OF.find(explained, query)
    assert 0 < found.total < 200
    counts = [plan for plan in explained.plans if "::tsquery" in plan]
    page = explained.plans[-1]
    assert all("Bitmap Index Scan on execution_by_word" in count for count in counts)
    assert "execution_by_word" not in page
    assert "execution_pkey" in page
    assert sum(count.count("word7") for count in counts) <= 2 * 2 * 40, "of each of the days, for each of the users"


def test_a_search_for_what_is_everywhere_sorts_nothing(explained):
    with explained.connection.transaction():
        found = ROWS_OF.find(explained, ExecutionQuery(scope=EVERYONE, text="every", limit=5))
    assert (found.total, len(found.items)) == (MOST_COUNTED, 5)
    assert "Index Scan Backward using execution_by_time" in of_page(explained)


def test_the_index_is_asked_for_no_more_days_than_it_takes_to_count(explained):
    every = ExecutionQuery(scope=EVERYONE, text="every", limit=5)
    days = len(ROWS_OF.totals(explained, ExecutionQuery(scope=EVERYONE), "day"))
    explained.plans.clear()
    with explained.connection.transaction():
        assert ROWS_OF.find(explained, every).total == MOST_COUNTED
    asked = set(re.findall(r"([0-9a-f]{4})[0-9a-f]{12}every", "".join(explained.plans)))
    assert 1 <= len(asked) <= days // 2


def test_others_are_looked_up_by_their_keys(explained):
    # Tables without a row are read whole, whatever indexes they have.
    explained.connection.execute("SET enable_seqscan = off")
    assert ROWS_OF.get(explained, "00000003", EVERYONE, transcript=True) is not None
    PartRows(BUILDER).spans(explained, execution(1).id, SHARED)
    ROWS_OF.find(explained, ExecutionQuery(scope=ALICE, parent=execution(1).id))
    ROWS_OF.find(explained, ExecutionQuery(scope=EVERYONE, parent="00000003"))
    plans = "\n".join(explained.plans)
    for index in ("execution_pkey", "transcript_pkey", "execution_by_parent"):
        assert index in plans
    assert "Seq Scan on execution" not in plans


async def test_a_hundred_questions_at_once_are_answered(emptied):
    async with PostgresStore(emptied) as store:
        await store.executions.put(execution(1))
        pages = await asyncio.gather(*(store.executions.find(ExecutionQuery(scope=ALICE)) for _ in range(100)))
    assert [page.total for page in pages] == [1] * 100


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
