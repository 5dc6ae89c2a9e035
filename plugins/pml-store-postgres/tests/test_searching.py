"""Searches for text on a day with many executions, of which every third says something."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from pml_hookspecs import ExecutionQuery, Page, Scope
from pml_store_postgres import PostgresStore, queries, searches
from pml_store_postgres.database import Database
from pml_store_postgres.migrations import MIGRATIONS
from pml_stores.matching import in_scope
from pml_stores.paging import MOST_COUNTED
from pml_testing.fakes import EPOCH
from pml_testing.records import ALICE, EVERYONE, execution

ROWS = 30_000
MOST = Scope(principals=frozenset(f"user{n}" for n in range(35)))
ONE = Scope(principals=frozenset({"user3"}))
HERS = Scope(principals=frozenset({"user3"}), agents=frozenset({"agent4", "agent6"}))


@pytest.fixture(scope="module")
def filled(fill):
    """Eight hours of executions, a second apart."""
    return fill(ROWS, timedelta(seconds=1))


@pytest.fixture(autouse=True)
def many(monkeypatch):
    """That of a hundred thousand would take a test too long."""
    monkeypatch.setattr(searches, "MANY", 10_000)


def find(explained, **asked):
    without = asked.pop("without", ())
    explained.plans.clear()
    with explained.connection.transaction():
        return queries.find(explained, ExecutionQuery(**{"scope": EVERYONE, "limit": 5, **asked}), without)


def those_of(explained, n_from, *, word="every", scope=EVERYONE):
    """Ids of executions from that number on, newest first, by another way than the store's."""
    rows = explained.connection.execute(
        "SELECT id, principal, as_agent AND agent = ANY(%s) FROM execution "
        "WHERE NOT nested AND id >= %s AND words::text LIKE %s ORDER BY id DESC",
        ([*scope.agents], f"{n_from:08}", f"%{word}%"),
    ).fetchall()
    return [id_ for id_, who, shared in rows if scope.principals is None or shared or who in scope.principals]


@pytest.mark.parametrize("scope", [EVERYONE, MOST], ids=["everyone", "most"])
def test_what_is_frequent_is_counted_among_the_newest(explained, scope):
    found = find(explained, scope=scope, text="every")
    assert [record.id for record in found.items] == those_of(explained, 0, scope=scope)[:5]
    assert (found.total, found.cursor is not None) == (MOST_COUNTED, True)
    plans = "\n".join(explained.plans)
    assert "execution_by_word" not in plans
    assert "Index Scan Backward using execution_by_time" in plans


@pytest.mark.parametrize(
    ("scope", "word"),
    [(EVERYONE, "word7"), (EVERYONE, "early"), (EVERYONE, "late"), (HERS, "every"), (HERS, "late"), (ONE, "every")],
    ids=["rare", "not any more", "not for long", "of some", "of some, not for long", "of one"],
)
def test_what_is_not_frequent_just_now_is_counted_by_the_index_of_words(explained, scope, word):
    found = find(explained, scope=scope, text=word)
    there = those_of(explained, 0, scope=scope, word=word)
    assert [record.id for record in found.items] == there[:5]
    assert found.total == min(len(there), MOST_COUNTED) > 0
    assert "execution_by_word" in "\n".join(explained.plans)


@pytest.mark.parametrize("number", [MOST_COUNTED - 1, MOST_COUNTED, MOST_COUNTED + 1])
@pytest.mark.parametrize("scope", [EVERYONE, MOST], ids=["everyone", "most"])
def test_a_frequent_word_in_a_short_time_is_counted_to_the_last(explained, scope, number):
    first = int(those_of(explained, 0, scope=scope)[number - 1])
    asked = {"scope": scope, "since": EPOCH + timedelta(seconds=first), "text": "every"}
    there = those_of(explained, first, scope=scope)
    assert len(there) == number
    assert find(explained, **asked).total == min(number, MOST_COUNTED)
    assert find(explained, **asked, without=there[:1]).total == min(number - 1, MOST_COUNTED)


def test_who_may_see_nothing_finds_nothing(explained):
    assert find(explained, scope=Scope(principals=frozenset()), text="every").total == 0


@pytest.mark.parametrize("number", [7, MOST_COUNTED + 7], ids=["seldom", "often"])
def test_pages_have_each_of_what_is_found_once(explained, number):
    first = ROWS - 3 * number
    there = those_of(explained, first)
    seen, cursor = [], None
    while not seen or cursor is not None:
        asked = {"since": EPOCH + timedelta(seconds=first), "text": "every", "limit": max(2, number // 5)}
        page = find(explained, **asked, cursor=cursor, without=there[1:2])
        assert page.total == min(number - 1, MOST_COUNTED)
        seen += [record.id for record in page.items]
        cursor = page.cursor
    assert seen == [id_ for id_ in there if id_ != there[1]]


def test_few_executions_are_looked_up_in_the_index_without_a_sample(explained, monkeypatch):
    monkeypatch.setattr(searches, "MANY", ROWS)
    assert find(explained, text="every").total == MOST_COUNTED
    assert "FILTER" not in "\n".join(explained.plans)


@pytest.mark.parametrize(
    ("there", "last"),
    [
        ({}, []),
        ({3: 1}, [3]),
        ({1: 1, 2: 1, 3: 1, 4: 1}, [2, 3, 4]),
        ({1: 1, 2: 10_001, 3: 1}, [2, 3]),
        ({2: 1, 3: 10_001}, [3]),
    ],
)
def test_the_index_is_asked_for_no_more_days_at_first_than_have_many_executions(there, last):
    assert searches._last_of(there) == last


@pytest.mark.parametrize(
    "filters",
    [
        {"agent": "agent6"},
        {"statuses": frozenset({"ok"})},
        {"trigger": "mcp"},
        {"target": "files:read"},
        {"parent": "00000000"},
        {"top_level": True, "include_dry_runs": False},
        {"until": EPOCH + timedelta(hours=4)},
    ],
    ids=lambda filters: next(iter(filters)),
)
def test_a_sample_changes_nothing_of_what_is_found(explained, monkeypatch, filters):
    found = find(explained, text="every", **filters)
    assert "FILTER" in "\n".join(explained.plans)
    monkeypatch.setattr(searches, "MANY", ROWS)
    assert find(explained, text="every", **filters) == found
    assert "FILTER" not in "\n".join(explained.plans)
    assert (found.total == 0) == ("parent" in filters)


@pytest.mark.attack("A key sees its scope", "search for a word of somebody else's and look how long it takes")
@pytest.mark.parametrize("words", ["word{}", "every word{}"])
def test_a_search_goes_through_nothing_of_others(explained, words):
    """What is gone through is counted, not timed."""
    said = {word for word in range(999) if word % 3 == 0}  # by executions that nothing is above
    hers = {int(id_) % 999 for id_ in those_of(explained, 0, scope=ONE)}
    others, seen = next(word for word in sorted(said - hers) if len(str(word)) == 3), []
    assert find(explained, text=f"word{others}").total > 0
    for wanted in (words.format(others), words.format("999")):
        assert find(explained, scope=ONE, text=wanted) == Page([], None, 0)
        steps = [re.sub(r"duration: .*|Query Text: .*|'[^']*'", "", plan) for plan in explained.plans]
        seen.append([re.sub(r"cost=\S+ ", "", step) for step in steps])
    assert seen[0] == seen[1]


@pytest.mark.anyio
async def test_words_of_the_version_before_are_searched_by_whose_they_are(emptied, monkeypatch):
    records = [
        execution(n, intent=f"count zebras {n}", principal="alice" if n % 3 else "bob", agent="r", as_agent=n % 2 == 0)
        for n in range(60)
    ]
    async with PostgresStore(emptied) as store:
        for record in records:
            await store.executions.put(record)
    with Database(emptied).open_writer() as connection:
        # As they were: marks beside the words.
        connection.execute(
            "UPDATE execution SET words = array_to_tsvector(ARRAY(SELECT DISTINCT left(word, 4) || part FROM "
            "unnest(tsvector_to_array(words)) AS word, unnest(ARRAY[substr(word, 17), '_p' || repeat('0', 32)]) part))"
        )
        for step in MIGRATIONS[-1]:
            connection.execute(step.format(schema=Database(emptied).schema))
    async with PostgresStore(emptied) as store:
        for scope in (EVERYONE, ALICE, Scope(principals=frozenset({"bob"}), agents=frozenset({"r"}))):
            right = sum(in_scope(record, scope) for record in records)
            for words in ("zebra", "count zebras", "co"):
                assert (await store.executions.find(ExecutionQuery(scope=scope, text=words))).total == right
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE, text="0000"))).total == 0
