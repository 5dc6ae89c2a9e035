"""What is recorded and not written yet is found as if it were written."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import timedelta

import pytest

from pml_hookspecs import ExecutionQuery, Page, Scope, Status
from pml_stores import matching, sums
from pml_stores.paging import MOST_COUNTED
from pml_stores.pending_overlay import PendingOverlay, latest, place_of
from pml_testing.records import EPOCH, EVERYONE, execution

ALICE = Scope(principals=frozenset({"alice"}))
BOB = Scope(principals=frozenset({"bob"}), agents=frozenset({"claude"}))


class Dictionary:
    """A database: a dictionary, which is its own connection."""

    def __init__(self, records):
        self.records = {record.id: record for record in records}

    one_statement = False
    says = staticmethod(matching.says)

    def rows(self, connection, query, without):
        assert connection is self
        return [r for r in self.records.values() if matching.matches(r, query) and r.id not in without]

    def find(self, connection, query, without=()):
        found = sorted(self.rows(connection, query, without), key=place_of, reverse=True)
        rest = found if query.cursor is None else [r for r in found if place_of(r) < self.read_cursor(query.cursor)]
        items = rest[: query.limit]
        return Page(items, self.write_cursor(place_of(items[-1])) if len(rest) > query.limit else None, len(found))

    def activity(self, connection, query, without=()):
        return sums.add_up(self.rows(connection, query, without), "agent")

    def totals(self, connection, query, by, without=()):
        return sums.add_up(self.rows(connection, query, without), by)

    def write_cursor(self, place):
        return json.dumps(place)

    def read_cursor(self, cursor):
        return tuple(json.loads(cursor))


def some(chance, most):
    """Executions of few people and few seconds, so that much is in question and times are shared."""
    return [
        execution(
            n,
            started_at=EPOCH + timedelta(seconds=chance.randrange(6)),
            principal=chance.choice(("alice", "bob")),
            agent=chance.choice(("claude", "codex")),
            as_agent=chance.random() < 0.5,
            target=chance.choice(("files:read", "web:get")),
            duration_ms=chance.choice((None, 5, 7)),
            cost_usd=chance.choice((None, 0.5)),
            tokens_in=chance.choice((None, 3)),
            status=chance.choice(("running", Status.OK, Status.ERROR)),
            dry_run=chance.random() < 0.2,
            parent=execution(0).id if chance.random() < 0.3 else None,
            intent=chance.choice(("", "zebra", "count zebras")),
            transcript=({"said": "hello"},) if chance.random() < 0.2 else None,
        )
        for n in chance.sample(range(40), chance.randrange(most))
    ]


def asked(chance):
    return ExecutionQuery(
        scope=chance.choice((EVERYONE, ALICE, BOB)),
        since=chance.choice((None, EPOCH + timedelta(seconds=2))),
        until=chance.choice((None, EPOCH + timedelta(seconds=4))),
        agent=chance.choice((None, "codex")),
        statuses=chance.choice((None, frozenset({"running"}), frozenset({"ok", "error"}))),
        top_level=chance.random() < 0.3,
        include_dry_runs=chance.random() < 0.7,
        text=chance.choice((None, None, "zebra", "zeb count", "-")),
        limit=chance.choice((1, 2, 5, 100)),
    )


def pages(find, query):
    """All of them: items by page, totals."""
    found, cursor = [], None
    while True:
        page = find(replace(query, cursor=cursor))
        found.append(([replace(record, transcript=None) for record in page.items], page.total))
        cursor = page.cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("seed", range(60))
def test_pages_and_totals_are_those_of_a_database_that_has_everything(seed):
    chance = random.Random(seed)
    written, unwritten = some(chance, 30), latest(some(chance, 20))
    database = Dictionary(written)
    everything = Dictionary([*written, *unwritten.values()])
    for _ in range(25):
        query = asked(chance)
        over = pages(lambda one: PendingOverlay(one, unwritten, database).find(database), query)
        assert over == pages(lambda one: everything.find(everything, one), query)


@pytest.mark.parametrize("seed", range(60))
def test_sums_are_those_of_a_database_that_has_everything(seed):
    chance = random.Random(seed)
    written, unwritten = some(chance, 30), latest(some(chance, 20))
    database, everything = Dictionary(written), Dictionary([*written, *unwritten.values()])
    for _ in range(25):
        query = asked(chance)
        over, plain = PendingOverlay(query, unwritten, database), PendingOverlay(query, {}, everything)
        assert over.activity(database) == plain.activity(everything)
        for by in ("agent", "tool", "server", "key", "day"):
            assert over.totals(database, by) == plain.totals(everything, by)


def test_numbers_are_those_that_a_database_would_keep():
    absurd = execution(1, duration_ms=2**62, tokens_in=-5, tokens_out=2**70, cost_usd=float("nan"))
    database = Dictionary([])
    overlay = PendingOverlay(ExecutionQuery(scope=EVERYONE), latest([absurd]), database)
    (total,) = overlay.totals(database, "agent")
    assert (total.mean_duration_ms, total.tokens_in, total.tokens_out, total.cost_usd) == (10**12, 0, 10**12, 0)


def test_lists_have_no_transcripts():
    unwritten = latest([execution(1, transcript=({"said": "hello"},))])
    database = Dictionary([])
    (found,) = PendingOverlay(ExecutionQuery(scope=EVERYONE), unwritten, database).find(database).items
    assert found.transcript is None


def test_of_several_states_the_one_recorded_last_counts():
    found = latest([execution(1, status="running"), object(), execution(1, status=Status.OK)])
    assert [record.status for record in found.values()] == [Status.OK]


def test_a_search_counts_a_thousand_of_what_is_written_and_what_is_not():
    database = Dictionary([execution(n, intent="zebra") for n in range(MOST_COUNTED - 1)])
    unwritten = latest([execution(n, intent="zebra") for n in range(5000, 5005)])
    counted = {
        text: PendingOverlay(ExecutionQuery(scope=EVERYONE, text=text), unwritten, database).find(database).total
        for text in ("zebra", "-", None)
    }
    assert counted == {"zebra": MOST_COUNTED, "-": MOST_COUNTED + 4, None: MOST_COUNTED + 4}


def test_what_the_database_could_not_hold_is_not_found_by_text():
    class Refusing(Dictionary):
        def says(self, record, text):
            raise TypeError("no JSON")

    database = Refusing([])
    query = ExecutionQuery(scope=EVERYONE, text="zebra")
    assert PendingOverlay(query, latest([execution(1, intent="zebra")]), database).find(database) == Page([], None, 0)
