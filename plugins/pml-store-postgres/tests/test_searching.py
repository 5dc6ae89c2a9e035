"""Searches for text on a day with many executions, of which every third says something."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from pml_hookspecs import ExecutionQuery, Page, Scope
from pml_store_postgres.execution_rows import ExecutionRows
from pml_stores.values import MOST_COUNTED
from pml_testing.fakes import EPOCH
from pml_testing.records import EVERYONE

ROWS = 30_000
MOST = Scope(principals=frozenset(f"user{n}" for n in range(35)))
ONE = Scope(principals=frozenset({"user3"}))
HERS = Scope(principals=frozenset({"user3"}), agents=frozenset({"agent4", "agent6"}))


@pytest.fixture(scope="module")
def filled(fill):
    """Eight hours of executions, a second apart."""
    return fill(ROWS, timedelta(seconds=1))


def find(explained, **asked):
    explained.plans.clear()
    with explained.connection.transaction():
        return ExecutionRows().find(explained, ExecutionQuery(**{"scope": EVERYONE, "limit": 5, **asked}))


def those_of(explained, n_from, *, word="every", scope=EVERYONE):
    """Ids of executions from that number on, newest first, by another way than the store's."""
    rows = explained.connection.execute(
        "SELECT id, principal, as_agent AND agent = ANY(%s) FROM execution "
        "WHERE NOT nested AND id >= %s AND words::text LIKE %s ORDER BY id DESC",
        ([*scope.agents], f"{n_from:08}", f"%{word}%"),
    ).fetchall()
    return [id_ for id_, who, shared in rows if scope.principals is None or shared or who in scope.principals]


@pytest.mark.parametrize(
    ("scope", "word"),
    [(EVERYONE, "word7"), (EVERYONE, "early"), (EVERYONE, "late"), (HERS, "every"), (HERS, "late"), (ONE, "every")],
    ids=["rare", "not any more", "not for long", "of some", "of some, not for long", "of one"],
)
def test_what_is_found_is_counted_by_the_index_of_words(explained, scope, word):
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


def test_who_may_see_nothing_finds_nothing(explained):
    assert find(explained, scope=Scope(principals=frozenset()), text="every").total == 0


@pytest.mark.parametrize("number", [7, MOST_COUNTED + 7], ids=["seldom", "often"])
def test_pages_have_each_of_what_is_found_once(explained, number):
    first = ROWS - 3 * number
    there = those_of(explained, first)
    seen, cursor = [], None
    while not seen or cursor is not None:
        asked = {"since": EPOCH + timedelta(seconds=first), "text": "every", "limit": max(2, number // 5)}
        page = find(explained, **asked, cursor=cursor)
        assert page.total == min(number, MOST_COUNTED)
        seen += [record.id for record in page.items]
        cursor = page.cursor
    assert seen == there


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
