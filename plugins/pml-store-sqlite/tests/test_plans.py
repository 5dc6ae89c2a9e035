"""No question reads the whole table of executions, whatever it asks for."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import timedelta

import pytest

from pml_hookspecs import Scope
from pml_hookspecs.store import ExecutionQuery
from pml_store_sqlite import Settings, conditions, execution_rows, history, pruning, queries, summaries, sums
from pml_store_sqlite.database import Database
from pml_store_sqlite.row_values import micros
from pml_testing.fakes import EPOCH
from pml_testing.records import ALICE, EVERYONE, execution, some_queries
from pml_testing.store_totals import GROUPINGS, assert_leaves_out, over_days

FULL_SCAN = re.compile(r"SCAN (execution|e|p|child)( USING (COVERING )?INDEX sqlite_autoindex\w+)?$")


class Explained:
    """Keeps SQLite's plan of every statement."""

    def __init__(self, connection):
        self.connection, self.plans = connection, []

    def execute(self, sql, values=()):
        if not sql.startswith("PRAGMA"):
            plan = [row[3] for row in self.connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)]
            self.plans.append((sql, plan))
        return self.connection.execute(sql, values)

    def about(self, table):
        return [line for _, plan in self.plans for line in plan if re.search(rf"\\b{table}\\b", line)]


@pytest.fixture(params=[False, True], ids=["fresh", "analyzed"])
def explained(tmp_path, request):
    """A connection that explains itself, to a history of ten days; also where SQLite has counted what there is."""
    with closing(Database(Settings(path=str(tmp_path / "pml.db")), None).open_writer()) as connection:
        connection.execute("BEGIN")
        execution_rows.write(connection, over_days())
        connection.execute("COMMIT")
        if request.param:
            connection.execute("ANALYZE")
        yield Explained(connection)


def no_full_scan(explained):
    for sql, plan in explained.plans:
        assert not [line for line in plan if FULL_SCAN.match(line)], (plan, sql)


def test_what_is_left_out_is_neither_listed_nor_counted_and_costs_no_scan(explained):
    assert_leaves_out(history, explained)
    no_full_scan(explained)


def test_no_list_reads_the_whole_table(explained):
    for query in some_queries():
        history.find(explained, query)
    no_full_scan(explained)


def test_no_later_page_reads_the_whole_table(explained):
    for query in (ExecutionQuery(scope=ALICE, limit=5), ExecutionQuery(scope=EVERYONE, limit=5, text="files")):
        cursor = history.find(explained, query).cursor
        assert cursor is not None
        later = ExecutionQuery(scope=query.scope, limit=5, text=query.text, cursor=cursor)
        assert len(history.find(explained, later).items) == 5
    no_full_scan(explained)


def test_no_summary_reads_the_whole_table(explained):
    for query in some_queries()[::2]:
        summaries.activity(explained, query)
        summaries.totals(explained, query, GROUPINGS[len(explained.plans) % 5])
    no_full_scan(explained)


@pytest.mark.parametrize(
    ("asked", "index"),
    [
        ({}, "execution_by_time"),
        ({"since": EPOCH, "include_dry_runs": False, "trigger": "mcp"}, "execution_by_time"),
        ({"agent": "agent 1", "since": EPOCH}, "execution_by_agent"),
        ({"statuses": frozenset({"error", "denied"})}, "execution_failed"),
        ({"statuses": frozenset({"running"})}, "execution_open"),
        ({"target": "files:*"}, "execution_by_server"),
        ({"target": "files:read", "since": EPOCH}, "execution_by_server"),
        ({"parent": execution(3).id}, "execution_by_parent"),
    ],
    ids=lambda given: "+".join(given) or "any" if isinstance(given, dict) else given,
)
def test_a_page_comes_from_the_index_that_it_is_together_in(explained, asked, index):
    history.find(explained, ExecutionQuery(scope=EVERYONE, **asked))
    (_, plan) = explained.plans[-1]
    assert [line for line in plan if f"USING INDEX {index}" in line], plan
    assert not [line for line in plan if line == "USE TEMP B-TREE FOR ORDER BY"], plan


def test_a_page_of_some_people_and_agents_is_looked_for_in_each_of_their_indexes(explained):
    scope = Scope(principals=frozenset({"alice", "bob"}), agents=frozenset({"agent 1"}))
    history.find(explained, ExecutionQuery(scope=scope, since=EPOCH))
    plan = "\n".join(explained.plans[-1][1])
    assert plan.count("USING INDEX execution_by_principal (principal=? AND started_at>?)") == 2
    assert plan.count("USING INDEX execution_by_own_agent (agent=? AND started_at>?)") == 1


@pytest.mark.parametrize(
    ("scope", "table"),
    [(ALICE, sums.COARSE), (Scope(principals=frozenset({"alice"}), agents=frozenset({"agent 1"})), sums.BY_AGENT)],
)
def test_a_total_is_a_sum_of_sums(explained, scope, table):
    query = ExecutionQuery(
        scope=scope, since=EPOCH + timedelta(minutes=10), until=EPOCH + timedelta(days=8, hours=5, minutes=7)
    )
    found = conditions.of(query)
    # Of the last day some hours are not in its sum.
    found.through = (micros(EPOCH + timedelta(days=7, hours=3)) + sums.ERA) // sums.HOUR
    summaries.count(explained, found)
    ((_, plan),) = explained.plans
    lines = [line for line in plan if line.startswith(("SEARCH", "SCAN"))]
    assert sum(f" {table.table} " in line and "grain=? AND bucket>? AND bucket<?" in line for line in lines) == 4
    assert sum("COVERING INDEX execution_by_time (started_at>? AND started_at<?" in line for line in lines) == 2


@pytest.mark.parametrize(
    ("hour", "minute", "left_over"),
    [
        (2, 10, [("-", sums.HOUR, 0, 2), ("-", 0, 2, 2 + 10 / 60)]),
        (2, 50, [("-", sums.HOUR, 0, 3), ("", 0, 2 + 50 / 60, 3)]),
        (22, 10, [("", sums.HOUR, 22, 24), ("-", 0, 22, 22 + 10 / 60)]),
        (0, 0, []),
    ],
)
def test_of_the_first_day_and_the_first_hour_the_lesser_part_is_gone_through(hour, minute, left_over):
    day = micros(EPOCH) // sums.DAY * sums.DAY
    since = day + hour * sums.HOUR + minute * 60_000_000
    found = [
        (sign, grain, *((at - day) / sums.HOUR for at in ends))
        for sign, grain, *ends in sums.pieces(since, None, 0)
        if ends[1] is not None
    ]
    assert found == left_over


def test_text_is_looked_for_in_its_time_and_scope_only(explained):
    scope = Scope(principals=frozenset({"alice"}), agents=frozenset({"agent 1"}))
    history.find(explained, ExecutionQuery(scope=scope, since=EPOCH, text="files"))
    lines = [line for _, plan in explained.plans for line in plan if "execution_text" in line]
    assert lines
    assert all("VIRTUAL TABLE INDEX" in line and ">" in line.rpartition(":")[2] for line in lines), lines
    matched = next(sql for sql, _ in explained.plans if "MATCH" in sql)
    assert "rowid >=" in matched


def test_getting_and_pruning_use_indexes(explained):
    history.get(explained, execution(1).id, ALICE, transcript=True)
    queries.spans(explained, execution(1).id, ALICE)
    pruned = pruning.Pruning(before=10**18)
    explained.connection.execute("BEGIN")
    while not pruned.done:
        pruned.step(explained)
    assert pruned.gone > 500
    no_full_scan(explained)
    assert not [line for line in explained.about("span") if line.startswith("SCAN")]
    assert not [line for line in explained.about("execution_body") if line.startswith("SCAN")]
