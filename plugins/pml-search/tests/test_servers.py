"""Everyday wishes over tools of real servers, a part of ``tests/bench/search_servers``, which names their sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pml_search import index_data
from pml_search.piece_vectors import table
from pml_search.ranker import Ranker
from pml_search.rows import Tool

DATA = Path(__file__).with_name("data")


def lines(name):
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def real():
    made = [
        Tool(one["id"], one["server"], {"name": one["name"], "description": one["description"]}, one["id"])
        for one in lines("servers.jsonl")
    ]
    return Ranker(index_data.build(made, table()))


@pytest.fixture(scope="module")
def answers(real):
    """By wish: the lists of tools that fit, the ids found, and the best relevance."""
    found = []
    for one in lines("wishes.jsonl"):
        ranked = real.search(one["wish"], 20)
        ids = [] if ranked is None else [real.data.ids[tool] for tool in ranked.tools]
        found.append((one["fitting"], ids, 0.0 if ranked is None else float(ranked.relevance[0])))
    return found


def share(answers):
    answers = list(answers)
    return sum(answers) / len(answers)


def test_wishes_find_their_tools_first_and_those_that_none_fits_stay_empty(answers):
    fitting = [(set().union(*groups), ids, best) for groups, ids, best in answers if groups]
    assert share(ids[:1] != [] and ids[0] in tools for tools, ids, _ in fitting) >= FIRST
    assert share(bool(tools.intersection(ids[:5])) for tools, ids, _ in fitting) >= FIVE
    assert share(best < 0.5 for groups, _, best in answers if not groups) >= EMPTY
    assert share(best < 0.5 for _, _, best in fitting) <= LOST


FIRST, FIVE, EMPTY, LOST = 0.74, 0.89, 0.91, 0.28
"""What was measured, less three hundredths."""


@pytest.mark.parametrize(
    ("wish", "steps"),
    [
        ("search the knowledge graph and delete what is outdated", ["memory:search_nodes", "memory:delete_entities"]),
        (
            "create a word document, add a heading and a table",
            ["word:create_document", "word:add_heading", "word:add_table"],
        ),
    ],
)
def test_several_steps_in_one_wish_bring_a_tool_for_each(real, wish, steps):
    found = {real.data.ids[tool] for tool in real.search(wish, 5).tools}
    assert found.issuperset(steps)


@pytest.mark.parametrize(
    "wish", ["delete the file draft.txt", "lösche die Datei entwurf.txt", "supprime le fichier brouillon.txt"]
)
def test_what_deletes_something_else_is_not_found_for_a_file(real, wish):
    found = real.search(wish, 5)
    assert found is None or found.relevance[0] < 0.5


@pytest.mark.parametrize(
    ("wish", "tool"),
    [
        ("welche Tabellen gibt es in der Datenbank", "motherduck:list_tables"),
        ("quelle heure est-il à Tokyo", "time:get_current_time"),
        ("what did people write in the channel today", "slack:slack_get_channel_history"),
    ],
)
def test_a_question_finds_what_tells_and_not_what_writes(real, wish, tool):
    assert real.data.ids[real.search(wish, 1).tools[0]] == tool
