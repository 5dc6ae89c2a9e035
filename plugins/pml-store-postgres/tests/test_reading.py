from __future__ import annotations

import asyncio
from datetime import timedelta

import psycopg
import pytest

from pml_hookspecs import ExecutionQuery, Scope, Status
from pml_store_postgres import PostgresStore, queries, sums
from pml_store_postgres.conditions import FAILED
from pml_store_postgres.database import Database
from pml_store_postgres.rows import micros
from pml_testing.fakes import EPOCH
from pml_testing.records import ALICE, EVERYONE, SHARED, ended, execution

pytestmark = pytest.mark.anyio
ROWS = 20_000
FILL = """
    INSERT INTO execution (started_at, duration_ms, cost_micros, size_bytes, deflated, nested, dry_run, as_agent, id,
        parent, kind, target, principal, agent, triggered_by, status, access_key, schedule, endpoint, mode, intent,
        request, response, words)
    SELECT %(first)s + n * 60000000::int8, 5, 10, 1000, 0, n %% 3 > 0, false, n %% 2 = 0, to_char(n, 'FM00000000'),
        CASE WHEN n %% 3 > 0 THEN to_char(n - n %% 3, 'FM00000000') END, 'tool', 'files:read',
        'user' || n %% 40, 'agent' || n %% 50, 'mcp',
        CASE WHEN n %% 100 = 7 THEN 'running' WHEN n %% 31 = 0 THEN 'error' ELSE 'ok' END, '', '', '', '', '',
        convert_to('{"a": "' || repeat('x', 300) || '"}', 'UTF8'), NULL,
        CASE WHEN n %% 3 = 0 THEN array_to_tsvector(ARRAY[
            to_hex((%(first)s + n * 60000000::int8) / 86400000000) || 'word' || n %% 999,
            to_hex((%(first)s + n * 60000000::int8) / 86400000000) || 'every'
        ]) END
    FROM generate_series(0, %(rows)s - 1) AS n
"""
"""A minute apart."""


@pytest.fixture(scope="module")
def filled(postgres):
    """Two weeks of executions."""
    url = postgres.database()
    settings = PostgresStore.settings_type(url=url)
    with Database(settings).open_writer() as connection:
        connection.execute(FILL, {"first": micros(EPOCH), "rows": ROWS})
        connection.execute("VACUUM ANALYZE")
    return settings


class Explained:
    """Keeps the plan of every statement that looks something up."""

    def __init__(self, connection):
        self.connection, self.plans = connection, []

    def execute(self, sql, values=None, **_how):
        if sql.startswith("SELECT"):
            plan = self.connection.execute(f"EXPLAIN {sql}", values).fetchall()
            self.plans.append("\n".join(row[0] for row in plan))
        return self.connection.execute(sql, values, binary=True)


@pytest.fixture
def explained(filled):
    connection = Database(filled).open_reader()
    yield Explained(connection)
    connection.close()


USER = Scope(principals=frozenset({"user7"}))
SEVERAL = Scope(principals=frozenset({"user7", "user8"}), agents=frozenset({"agent2"}))
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


def test_the_newest_are_not_sorted_out_of_all(explained):
    queries.find(explained, ExecutionQuery(scope=EVERYONE, limit=5))
    first = queries.find(explained, ExecutionQuery(scope=EVERYONE, limit=5))
    queries.find(explained, ExecutionQuery(scope=EVERYONE, limit=5, cursor=first.cursor))
    for plan in (explained.plans[1], explained.plans[-1]):
        assert "Index Only Scan Backward using execution_by_time" in plan
    assert "Index Cond: (ROW(started_at, id) < ROW(" in explained.plans[-1]


@pytest.mark.parametrize("scope", [EVERYONE, USER, SEVERAL], ids=["everyone", "one", "several"])
def test_whole_days_and_hours_are_counted_from_sums_and_the_ends_through_an_index(explained, scope):
    query = ExecutionQuery(scope=scope, since=LATE - timedelta(days=9), until=LATE, top_level=True)
    queries.find(explained, query)
    sums.activity(explained, query)
    sums.totals(explained, query, "day")
    for plan in (explained.plans[0], explained.plans[2], explained.plans[3]):
        assert "execution_sum_day_pkey" in plan
        assert "Seq Scan" not in plan
        assert "Index" in plan


@pytest.mark.parametrize(("by", "facet"), [("tool", 1), ("server", 1), ("key", 2)])
def test_totals_of_everyone_by_tool_and_key_come_from_sums(explained, by, facet):
    (total,) = sums.totals(explained, ExecutionQuery(scope=EVERYONE), by)
    assert total.executions == ROWS
    (plan,) = explained.plans
    assert f"facet = '{facet}'" in plan
    assert " on execution " not in plan


def test_a_search_goes_through_the_index_of_words_and_the_days_asked_for(explained):
    query = ExecutionQuery(scope=EVERYONE, since=LATE, text="word7")
    found = queries.find(explained, query)
    assert 0 < found.total < 200
    count, page = explained.plans[-2:]
    assert "Bitmap Index Scan on execution_by_word" in count
    assert "execution_by_word" in page or "execution_by_time" in page
    days = count.count("word7")
    assert days <= 2 * 3


def test_a_search_for_what_is_everywhere_sorts_nothing(explained):
    found = queries.find(explained, ExecutionQuery(scope=EVERYONE, text="every", limit=5))
    assert (found.total, len(found.items)) == (-(-ROWS // 3), 5)
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
