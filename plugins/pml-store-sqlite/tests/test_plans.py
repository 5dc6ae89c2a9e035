"""No question reads the whole table of executions, whatever it asks for."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import timedelta

import pytest

from pml_hookspecs import Scope
from pml_hookspecs.store import ExecutionQuery
from pml_store_sqlite import Settings
from pml_store_sqlite.conditions import BUILDER
from pml_store_sqlite.database import Database
from pml_store_sqlite.execution_rows import ExecutionRows
from pml_stores.sql.parts import PartRows
from pml_stores.sql.pruning import Pruning
from pml_stores.sql.totals import TABLE
from pml_testing.fakes import EPOCH
from pml_testing.records import ALICE, EVERYONE, execution, some_queries
from pml_testing.store_totals import GROUPINGS, over_days

ROWS = ExecutionRows()
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
        ROWS.write(connection, [ROWS.encode(record) for record in over_days()])
        connection.execute("COMMIT")
        if request.param:
            connection.execute("ANALYZE")
        yield Explained(connection)


def no_full_scan(explained):
    for sql, plan in explained.plans:
        assert not [line for line in plan if FULL_SCAN.match(line)], (plan, sql)


def test_no_list_reads_the_whole_table(explained):
    for query in some_queries():
        ROWS.find(explained, query)
    no_full_scan(explained)


def test_no_later_page_reads_the_whole_table(explained):
    for query in (ExecutionQuery(scope=ALICE, limit=5), ExecutionQuery(scope=EVERYONE, limit=5, text="files")):
        cursor = ROWS.find(explained, query).cursor
        assert cursor is not None
        later = ExecutionQuery(scope=query.scope, limit=5, text=query.text, cursor=cursor)
        assert len(ROWS.find(explained, later).items) == 5
    no_full_scan(explained)


def test_no_summary_reads_the_whole_table(explained):
    for query in some_queries()[::2]:
        ROWS.activity(explained, query)
        ROWS.totals(explained, query, GROUPINGS[len(explained.plans) % 5])
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
    ROWS.find(explained, ExecutionQuery(scope=EVERYONE, **asked))
    (plan,) = (plan for sql, plan in explained.plans if sql.startswith("SELECT started_at, id"))
    assert [line for line in plan if f"USING INDEX {index}" in line], plan
    assert not [line for line in plan if line == "USE TEMP B-TREE FOR ORDER BY"], plan


def test_a_page_of_somebody_is_not_looked_for_among_all(explained):
    ROWS.find(explained, ExecutionQuery(scope=ALICE, since=EPOCH))
    plans = [line for _, plan in explained.plans for line in plan]
    assert "SEARCH execution USING INDEX execution_by_principal (principal=? AND started_at>?)" in plans


@pytest.mark.parametrize("scope", [ALICE, Scope(principals=frozenset({"alice"}), agents=frozenset({"agent 1"}))])
def test_a_total_is_a_sum_of_totals(explained, scope):
    query = ExecutionQuery(
        scope=scope, since=EPOCH + timedelta(minutes=10), until=EPOCH + timedelta(days=8, hours=5, minutes=7)
    )
    ROWS.find(explained, query)
    plan = explained.plans[0][1]
    lines = [line for line in plan if line.startswith(("SEARCH", "SCAN"))]
    # Whole days, the hours before and after them, and the minutes at both ends.
    assert sum(f" {TABLE} " in line and "grain=? AND bucket>? AND bucket<?" in line for line in lines) == 3
    assert sum("INDEX execution_by_time (started_at>? AND started_at<?" in line for line in lines) == 2


def test_text_is_looked_for_in_its_time_and_scope_only(explained):
    scope = Scope(principals=frozenset({"alice"}), agents=frozenset({"agent 1"}))
    ROWS.find(explained, ExecutionQuery(scope=scope, since=EPOCH, text="files"))
    lines = [line for _, plan in explained.plans for line in plan if "execution_word" in line]
    assert lines
    assert all("VIRTUAL TABLE INDEX" in line and ">" in line.rpartition(":")[2] for line in lines), lines
    matched = next(sql for sql, _ in explained.plans if "MATCH" in sql)
    assert "rowid >=" in matched


def test_getting_and_pruning_use_indexes(explained):
    ROWS.get(explained, execution(1).id, ALICE, transcript=True)
    PartRows(BUILDER).spans(explained, execution(1).id, ALICE)
    pruning, gone, done = Pruning(ROWS, before=10**18), 0, False
    explained.connection.execute("BEGIN")
    while not done:
        deleted, done = pruning.step(explained)
        gone += deleted
    assert gone > 500
    no_full_scan(explained)
    assert not [line for line in explained.about("span") if line.startswith("SCAN")]
    assert not [line for line in explained.about("execution_body") if line.startswith("SCAN")]
