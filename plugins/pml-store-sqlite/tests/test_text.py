"""Searching for text: what is found, in which order, and what is gone through for it."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from itertools import product

import pytest

from pml_hookspecs import ExecutionQuery, Scope
from pml_store_sqlite import Settings, SqliteStore, text
from pml_store_sqlite.database import Database
from pml_store_sqlite.execution_rows import ExecutionRows
from pml_stores.values import MOST_COUNTED
from pml_testing.fakes import EPOCH
from pml_testing.records import EVERYONE, execution, written

pytestmark = pytest.mark.anyio


def saying(words, **more):
    return ExecutionQuery(scope=EVERYONE, text=words, **more)


def at(path, **more):
    return SqliteStore(Settings(path=str(path), **more))


async def found(store, words, **more):
    return [record.id for record in (await store.executions.find(saying(words, **more))).items]


async def test_what_is_recorded_is_found_at_once(path):
    async with at(path) as store:
        store.executions.record(execution(1, intent="paint the fence"))
        assert await found(store, "fence") == [execution(1).id]
        store.executions.record(execution(2, intent="paint the shed"))
        (activity,) = await store.executions.activity(saying("paint"))
        assert activity.executions == 2
        store.executions.record(execution(3, intent="paint the door"))
        (total,) = await store.executions.totals(saying("paint"), "agent")
        assert total.executions == 3


async def test_what_is_replaced_is_found_by_what_it_says_last(path):
    async with at(path) as store:
        await store.executions.put(execution(1, intent="apples"))
        await store.executions.put(execution(1, intent="pears"))
        assert await found(store, "apples") == []
        assert await found(store, "pears") == [execution(1).id]
        await store.executions.put(execution(1, intent="plums"))
        assert await found(store, "pears") == []
        assert await found(store, "plums") == [execution(1).id]


async def test_what_no_file_can_hold_is_not_found_by_text(path):
    async with at(path) as store:
        store.executions.record(execution(1, intent="apples", request={"what": object()}))
        store.executions.record(execution(2, intent="apples"))
        assert await found(store, "apples") == [execution(2).id]


async def test_longer_words_are_found_among_those_that_everybody_says(path):
    said = {0: "report", 1: "reports", 2: "sport", 3: "reporter", 4: "unreported", 5: "Report"}
    records = [execution(n, intent=said[n % 6], started_at=EPOCH + timedelta(seconds=n)) for n in range(6600)]
    right = [record.id for record in reversed(records) if record.intent.lower().startswith("report")]
    async with at(path) as store:
        await written(store, records)
        page = await store.executions.find(saying("report", limit=100))
        there = [record.id for record in page.items]
        while page.cursor is not None and len(there) < 600:
            assert page.total == MOST_COUNTED
            page = await store.executions.find(saying("report", limit=100, cursor=page.cursor))
            there += [record.id for record in page.items]
    assert there == right[: len(there)]


@pytest.mark.parametrize("ties", [1, 3, 300])
async def test_pages_of_a_search_have_everything_once_however_many_began_at_a_time(path, ties):
    records = [
        execution(n, intent="seldom" if n % 400 == 0 else "often", started_at=EPOCH + timedelta(seconds=n // ties))
        for n in range(1200)
    ]
    async with at(path) as store:
        for record in records:
            store.executions.record(record)
        for words, more in product(("often", "seldom", "files", "never"), ({}, {"agent": "claude"})):
            right = sorted(
                (r for r in records if words in f"{r.intent} {r.target}"),
                key=lambda r: (r.started_at, r.id),
                reverse=True,
            )
            there, cursor = [], None
            while True:
                page = await store.executions.find(saying(words, limit=100, cursor=cursor, **more))
                assert page.total == min(len(right), MOST_COUNTED)
                there += [record.id for record in page.items]
                cursor = page.cursor
                if cursor is None:
                    break
            assert there == [record.id for record in right]


BOB = Scope(principals=frozenset({"bob"}), agents=frozenset({"helper"}))
OF_BOB = [text._mark("p", "bob"), text._mark("a", "helper")]


def of_two(count, words):
    """Executions of alice's with these words, among as many of bob's with others."""
    for n in range(count):
        yield execution(2 * n, principal="alice", intent=words)
        yield execution(2 * n + 1, principal="bob", intent="tomatoes")


@pytest.mark.attack("A key sees its scope", "search for a word of somebody else's and look how long it takes")
@pytest.mark.parametrize("words", ["secretary", "secr", "se", "secretary tomatoes"])
def test_a_search_goes_through_nothing_of_others(path, words):
    """What is gone through is counted, not timed: texts that are read, and what the index is asked for."""
    asked = {}
    with closing(Database(Settings(path=str(path)), None).open_writer()) as connection:
        connection.execute("BEGIN")
        rows = ExecutionRows()
        rows.write(connection, [rows.encode(record) for record in of_two(1500, "secretary secrets")])
        connection.execute("COMMIT")
        unknown = words.replace("se", "xq")
        rows.find(connection, ExecutionQuery(scope=BOB, text=unknown))  # opens what stays open
        for wanted in (words, unknown):
            statements, steps = [], []
            connection.set_trace_callback(statements.append)
            connection.set_progress_handler(lambda steps=steps: steps.append(1), 1)
            page = rows.find(connection, ExecutionQuery(scope=BOB, text=wanted))
            connection.set_progress_handler(None, 0)
            connection.set_trace_callback(None)
            assert (page.total, page.items, page.cursor) == (0, [], None)
            for matched in (said for said in statements if "MATCH" in said):
                assert all(f'"{mark}{word}"' in matched for mark in OF_BOB for word in wanted.split())
                assert matched.count('"') == 2 * len(OF_BOB) * len(wanted.split())
            asked[wanted] = (len(statements), len(steps))
    assert asked[words] == asked[unknown]


@pytest.mark.parametrize("words", ["secretary", "secretaries", "secr", "tomatoes"])
async def test_whoever_may_see_more_finds_all_of_it(path, words):
    async with at(path) as store:
        records = list(of_two(700, "secretary secretaries"))
        records += [execution(9000 + n, principal="carol", agent="helper", as_agent=True, intent="tomatoes secr")
                    for n in range(9)]  # fmt: skip
        await written(store, records)
        for scope, whose in ((EVERYONE, {"alice", "bob", "carol"}), (BOB, {"bob", "carol"})):
            right = [r for r in records if r.principal in whose and any(w.startswith(words) for w in r.intent.split())]
            page = await store.executions.find(ExecutionQuery(scope=scope, text=words, limit=100))
            assert page.total == min(len(right), MOST_COUNTED)
            newest = sorted(right, key=lambda r: (r.started_at, r.id), reverse=True)[:100]
            assert [record.id for record in page.items] == [record.id for record in newest]
