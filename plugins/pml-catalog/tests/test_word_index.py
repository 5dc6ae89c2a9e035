from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_catalog.search.word_index import WordIndex, stem, terms
from pml_hookspecs import CatalogEntry
from pml_testing.fakes import entry, some_entries
from pml_testing.work import counted

pytestmark = pytest.mark.anyio

TOOLS = [
    entry("filesystem:read_file", "Read the complete contents of a file."),
    entry("filesystem:write_file", "Create a file or overwrite it with new content."),
    entry("filesystem:list_directory", "Get a detailed listing of a directory."),
    entry("github:createPullRequest", "Open a request to merge a branch."),
    entry(
        "github:search_issues", "Find issues.", input_schema={"properties": {"label": {"description": "Colour tag"}}}
    ),
    entry("weather:forecast", "Will it rain?", input_schema={"properties": {"cityName": {"type": "string"}}}),
    entry("bing:search_zh", "使用必应搜索指定的关键词"),
]


async def index(*entries: CatalogEntry) -> WordIndex:
    made = WordIndex()
    await made.build(entries, "1")
    return made


async def found(query: str, *entries: CatalogEntry, limit: int = 10, min_score: float = 0.0) -> list[str]:
    made = await index(*(entries or TOOLS))
    return [match.id for match in await made.search(query, limit=limit, min_score=min_score)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("read_file", ["read", "file"]),
        ("createPullRequest", ["create", "pull", "request"]),
        ("HTTPServer list-all", ["http", "server", "list"]),
        ("base64", ["base", "64"]),
        ("Find the issues of a repository", ["find", "issue", "repository"]),
        ("Queries, branches, boxes, caches, classes, status", ["query", "branch", "box", "cach", "class", "status"]),
        ("关键词", ["关键", "键词"]),
        ("Straße ﬁle", ["strasse", "file"]),
        ("  !? \n", []),
    ],
)
def test_texts_are_split_into_terms(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("one", "many"), [("file", "files"), ("directory", "directories"), ("cache", "caches"), ("bus", "bus")]
)
def test_singular_and_plural_are_one_term(one: str, many: str) -> None:
    assert stem(one) == stem(many)


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("read a file", "filesystem:read_file"),
        ("open a pull request", "github:createPullRequest"),
        ("directories", "filesystem:list_directory"),
        ("city", "weather:forecast"),
        ("colour", "github:search_issues"),
        ("github issue", "github:search_issues"),
        ("搜索", "bing:search_zh"),
    ],
)
async def test_names_servers_descriptions_and_parameters_are_searched(query: str, best: str) -> None:
    assert (await found(query))[0] == best


async def test_a_word_in_the_name_counts_more_than_one_in_the_description() -> None:
    assert await found("archive", entry("a:x", "Archive things"), entry("b:archive", "Puts things")) == [
        "b:archive",
        "a:x",
    ]


async def test_a_title_and_nested_parameters_are_searched() -> None:
    nested = {
        "properties": {"where": {"properties": {"postcode": {}}}, "list": {"items": {"properties": {"iban": {}}}}}
    }
    tools = [entry("a:one", input_schema=nested), entry("a:two", title="Invoice")]
    assert await found("postcode", *tools) == ["a:one"]
    assert await found("iban", *tools) == ["a:one"]
    assert await found("invoice", *tools) == ["a:two"]


async def test_an_exact_hit_scores_near_one() -> None:
    matches = await (await index(*TOOLS)).search("read file", limit=3, min_score=0.0)
    assert 0.95 <= matches[0].score <= 1.0
    assert matches[1].score < 0.8


async def test_words_that_no_tool_has_lower_the_score() -> None:
    made = await index(*TOOLS)
    [sure, *_] = await made.search("forecast", limit=1, min_score=0.0)
    [unsure, *_] = await made.search("forecast zebra unicorn", limit=1, min_score=0.0)
    assert unsure.score < sure.score


async def test_a_score_exactly_at_the_threshold_is_kept() -> None:
    made = await index(*TOOLS)
    second = (await made.search("read file", limit=2, min_score=0.0))[1]
    kept = await made.search("read file", limit=10, min_score=second.score)
    assert kept[-1] == second
    assert second not in await made.search("read file", limit=10, min_score=second.score + 0.0001)


async def test_ties_are_broken_by_id() -> None:
    tools = [entry(f"s:ping_{letter}") for letter in "dbac"]
    assert await found("ping", *tools) == ["s:ping_a", "s:ping_b", "s:ping_c", "s:ping_d"]


@pytest.mark.parametrize("query", ["", "   ", "?!", "how do i use the", "zebra"])
async def test_a_query_without_words_that_anything_has_finds_nothing(query: str) -> None:
    assert await found(query) == []


async def test_no_more_than_the_limit_is_found() -> None:
    assert len(await found("file", limit=1)) == 1
    assert await found("file", limit=0) == []


async def test_an_empty_catalog_can_be_searched() -> None:
    assert await WordIndex().search("file", limit=5, min_score=0.0) == []
    assert await (await index()).search("file", limit=5, min_score=0.0) == []


async def test_building_again_replaces_what_was_there() -> None:
    made = await index(*TOOLS)
    await made.build([entry("a:zebra")], "2")
    assert await made.search("file", limit=5, min_score=0.0) == []
    assert [m.id for m in await made.search("zebra", limit=5, min_score=0.0)] == ["a:zebra"]


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        [],
        "text",
        {"properties": []},
        {"properties": {"a": True, "b": {"description": 7, "enum": {"x": 1}}}},
    ],
)
async def test_schemas_that_make_no_sense_are_indexed_by_name(schema: object) -> None:
    odd = CatalogEntry("s:odd", "s", {"name": "odd", "description": None, "inputSchema": schema}, 1)
    assert await found("odd", odd) == ["s:odd"]


async def test_a_self_containing_schema_ends() -> None:
    schema: dict = {"properties": {}}
    schema["properties"]["again"] = schema
    odd = CatalogEntry("s:odd", "s", {"name": "odd", "inputSchema": schema}, 1)
    assert await found("again odd", odd) == ["s:odd"]


@given(st.text(), st.integers(1, 5), st.floats(0, 1))
async def test_whatever_is_asked_the_answer_is_ordered_and_within_bounds(
    query: str, limit: int, min_score: float
) -> None:
    made = await index(*TOOLS[:4])
    matches = await made.search(query, limit=limit, min_score=min_score)
    assert len(matches) <= limit
    assert matches == sorted(matches, key=lambda m: (-m.score, m.id))
    assert all(min_score <= m.score <= 1 for m in matches)


ANSWER = """
import asyncio, json
from pml_catalog.search.word_index import WordIndex
from pml_testing.fakes import some_entries

async def main():
    index = WordIndex()
    await index.build(some_entries(5, 20), "1")
    print(json.dumps([[m.id, m.score] for m in await index.search("copy thing 3 or delete", limit=50, min_score=0)]))

asyncio.run(main())
"""


async def test_another_process_with_another_hash_seed_answers_the_same() -> None:
    def answer(seed: str) -> list:
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", ANSWER], env=env, capture_output=True, check=True, timeout=30)
        return json.loads(done.stdout)

    first = answer("1")
    assert len(first) == 50
    assert first == answer("2")


@pytest.mark.parametrize(
    "query", ["read thing", "copy thing number 7 and delete thing 3", "list everything that was written on server 4"]
)
async def test_a_query_takes_a_few_calls_for_each_tool_and_no_more_when_there_are_many(query: str) -> None:
    each = []
    for servers in (14, 28):
        made = await index(*some_entries(servers, 50))
        with counted() as work:
            await made.search(query, limit=50, min_score=0.0)
        each.append(work.calls / (servers * 50))
    assert each[1] < 1.2 * each[0] < 12


@given(st.sets(st.integers(0, len(TOOLS) - 1)), st.sampled_from(["read file", "search issues city 搜索", "file file"]))
async def test_what_may_be_found_is_ranked_as_if_there_were_nothing_else(some: set[int], query: str) -> None:
    chosen = [TOOLS[place] for place in sorted(some)]
    among = frozenset(tool.id for tool in chosen)
    filtered = await (await index(*TOOLS)).search(query, limit=9, min_score=0.0, among=among)
    assert filtered == await (await index(*chosen)).search(query, limit=9, min_score=0.0)


async def test_ids_that_the_index_does_not_know_make_no_difference() -> None:
    made = await index(*TOOLS)
    everything = {tool.id for tool in TOOLS}
    usual = await made.search("read file", limit=9, min_score=0.0)
    assert await made.search("read file", limit=9, min_score=0.0, among=everything | {"new:tool"}) == usual
    assert await made.search("read file", limit=9, min_score=0.0, among=["new:tool"]) == []


async def test_what_else_there_is_changes_no_score() -> None:
    alone = await (await index(TOOLS[0])).search("read a file of mine", limit=1, min_score=0.0)
    assert (
        await (await index(*TOOLS, *some_entries(5, 20))).search("read a file of mine", limit=1, min_score=0.0) == alone
    )
