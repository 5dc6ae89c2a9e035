from __future__ import annotations

import time

import pytest

from pml_search import index_data
from pml_search.piece_vectors import table
from pml_search.ranker import Ranker, Weights
from pml_search.rows import Tool
from pml_testing.pace import slowness


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("read a file", "files:read_file"),
        ("generate image", "pictures:generateImage"),
        ("merge the pull request", "forge:merge_pull_request"),
        ("get rid of a file", "files:delete_file"),
        ("give the customer the money back", "pay:refund_payment"),
        ("will it rain tomorrow", "sky:get_forecast"),
        ("what is on my schedule this week", "agenda:list_events"),
        ("write to my boss that I am ill", "mail:send_email"),
        ("thumbs up for that post", "chat:add_reaction"),
        ("dollars in euros", "pay:convert_currency"),
    ],
)
def test_a_tool_is_found_by_its_words_and_by_other_words(ids, query, tool):
    assert tool in ids(query, 3)


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("Datei lesen", "files:read_file"),
        ("lösche die E-Mail", "mail:delete_email"),
        ("envoyer un courriel", "mail:send_email"),
        ("créer un événement dans l'agenda", "agenda:create_event"),
        ("¿lloverá mañana? pronóstico del tiempo", "sky:get_forecast"),
        ("tradurre un testo", "words:translate_text"),
        ("gerar uma imagem", "pictures:generateImage"),
        ("читать файл", "files:read_file"),
        ("发送邮件", "mail:send_email"),
        ("スクリーンショットを撮る", "pictures:takeScreenshot"),
        ("파일 삭제", "files:delete_file"),
    ],
)
def test_a_tool_is_found_in_other_languages(ids, query, tool):
    assert tool in ids(query, 3)


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("trasncribe audoi", "words:transcribe_audio"),
        ("screnshot", "pictures:takeScreenshot"),
        ("convert curency", "pay:convert_currency"),
        ("list invioces", "pay:list_invoices"),
    ],
)
def test_a_misspelt_query_finds_the_tool(ids, query, tool):
    assert ids(query, 1) == [tool]


def test_each_clause_of_a_long_request_finds_its_tool(ids):
    found = ids("Get the weather forecast for Oslo, then translate the text into French and post it to the channel", 5)
    assert {"sky:get_forecast", "words:translate_text", "chat:post_message"} <= set(found)


def test_twins_are_told_apart_by_their_server(ids):
    assert ids("create an issue in otherforge", 1) == ["otherforge:create_issue"]
    assert ids("create an issue in forge", 1) == ["forge:create_issue"]


def test_twins_stand_together(ids):
    assert set(ids("open an issue in a repository", 2)) == {"forge:create_issue", "otherforge:create_issue"}


def test_a_tool_is_found_by_what_it_takes_and_returns(ids):
    assert ids("takes a path, returns text", 1) == ["files:read_file"]
    assert ids("path -> number", 1) == ["files:file_size"]


def test_relevance_never_rises_and_ties_are_ordered_by_id(ranker):
    ranked = ranker.search("file", 100)
    assert (ranked.relevance[:-1] >= ranked.relevance[1:]).all()
    scores = ranked.evidence.score[ranked.tools].tolist()
    names = [ranker.data.ids[tool] for tool in ranked.tools]
    assert sorted(zip([-score for score in scores], names, strict=True)) == list(
        zip([-score for score in scores], names, strict=True)
    )


def test_the_same_question_has_the_same_answer_whatever_was_asked_before(tools, ranker):
    fresh = Ranker(index_data.build(tools, table()))
    for query in ("delete event", "sned emial", "read a file and send it"):
        first, second = ranker.search(query, 50), fresh.search(query, 50)
        assert first.tools.tolist() == second.tools.tolist()
        assert first.relevance.tolist() == second.relevance.tolist()


def test_a_longer_answer_begins_with_the_shorter_one(ids):
    assert ids("list", 20)[:5] == ids("list", 5)


def test_what_may_not_be_found_leaves_no_trace_in_the_scores_of_others(ranker, tools):
    hidden = "files:read_file"
    rest = [tool.id for tool in tools if tool.id != hidden]
    ranked = ranker.search("read file", 5, rest)
    assert hidden not in [ranker.data.ids[tool] for tool in ranked.tools]
    best = ranker.search("read file", 6)
    assert ranked.relevance.tolist() == best.relevance[1:].tolist(), "measured against the best tool"


def test_nothing_is_found_among_nothing(ranker):
    assert ranker.search("read file", 5, []) is None
    assert ranker.search("read file", 5, ["no:such"]) is None


@pytest.mark.parametrize("query", ["", "   ", "!!! ...", "\x00\x01", "the of and"])
def test_a_query_without_words_finds_nothing(ranker, query):
    assert ranker.search(query, 5) is None


@pytest.mark.parametrize(
    "query",
    [
        "read file " * 100_000,
        "\x00read\x1b[31m file\x7f",
        "\ud800 read file",
        "a" * 1_000_000,
        "( [ { * + ? \\ | ^ $ read file",
        "🗂️ read 📄 file",
        "ﬁle \U0001d42b\U0001d41e\U0001d41a\U0001d41d",
    ],
)
def test_odd_queries_are_answered(ranker, query):
    ranker.search(query, 5)


def test_control_characters_do_not_hide_words(ids):
    assert ids("read\x00file\x1b", 1) == ["files:read_file"]


WEIRD = [
    {"name": "a"},
    {"name": "b", "description": None, "inputSchema": None},
    {"name": "c", "description": 7, "inputSchema": "no", "annotations": [], "title": {}},
    {"name": "d", "inputSchema": {"properties": {"x": 3, "y": {"enum": 5, "description": []}, "z": {"items": []}}}},
    {"name": "e", "inputSchema": {"type": ["object"], "properties": {"x": {"type": ["string", "null"], "enum": [{}]}}}},
    {"name": "read_file", "description": "Read a file. " + "x" * 100_000},
    {"name": "f", "description": "alpha read beta gamma file delta " * 4_000},
    {"name": "\ud800bad", "description": "\ud800 \x00"},
]


def test_odd_definitions_are_indexed_and_a_huge_one_does_not_win_by_size():
    tools = [Tool(str(n), "s", definition, str(n)) for n, definition in enumerate(WEIRD)]
    ranked = Ranker(index_data.build(tools, table())).search("read a file", 8)
    assert tools[ranked.tools[0]].definition["name"] == "read_file"


def test_no_tools_and_one_tool():
    assert Ranker(index_data.build([], table())).search("read", 5) is None
    one = Tool("one", "s", {"name": "read_file"}, "1")
    assert Ranker(index_data.build([one], table())).search("read a file", 5).tools.tolist() == [0]


def test_the_same_tool_twice_is_found_twice():
    twice = [Tool("one", "s", {"name": "read_file"}, "1"), Tool("two", "s", {"name": "read_file"}, "1")]
    assert Ranker(index_data.build(twice, table())).search("read a file", 5).tools.tolist() == [0, 1]


def test_each_kind_of_evidence_can_be_switched_off(tools, ranker):
    query = "what is on my schedule this week"
    usual = ranker.search(query, 50).evidence.score
    for change in ({"words": 0}, {"meaning": 0}, {"server": 0}, {"synonyms": False}):
        other = Ranker(ranker.data, Weights(**change)).search(query, 50).evidence.score
        assert (usual != other).any(), change


COMPOUNDS = [
    Tool("vault", "cloud", {"name": "keyvault_secret_get", "description": "Get a secret."}, "1"),
    Tool("map", "ideas", {"name": "draw_mind_map", "description": "Draw a mind map."}, "2"),
    *(Tool(f"other{n}", "other", {"name": f"thing_{n}", "description": "Another thing."}, f"o{n}") for n in range(9)),
]


@pytest.mark.parametrize(("query", "tool"), [("key vault", "vault"), ("mindmap", "map"), ("mind-map", "map")])
def test_compounds_are_found_whether_they_are_written_as_one_word_or_two(query, tool):
    ranked = Ranker(index_data.build(COMPOUNDS, table())).search(query, 1)
    assert COMPOUNDS[ranked.tools[0]].id == tool
    assert ranked.evidence.share[0].max() > 0.2


def test_common_words_are_not_taken_for_compounds(ranker):
    (part, *_) = ranker.prepare("weekend for me")
    assert [sought.word for sought in part.words] == ["weekend"]


def test_a_request_for_a_file_finds_what_writes_it(ids, ranker):
    query = "Get the weather forecast for Oslo as a table in /srv/reports/oslo.md"
    assert ranker.prepare(query)[-1].text == "write file"
    assert "files:write_file" in ids(query, 2)


def test_abbreviations_are_understood(ids):
    assert ids("merge the PR", 1) == ["forge:merge_pull_request"]


def test_a_name_of_a_server_alone_finds_its_tools(ranker):
    found = ranker.search("forge", 3)
    assert {ranker.data.servers[ranker.data.server_of[tool]] for tool in found.tools} <= {"forge", "otherforge"}


def test_twins_but_for_the_server_have_equal_scores_when_no_server_is_named(tools):
    definition = {"name": "ping", "description": "Ping a host."}
    twins = [Tool(f"{name}:ping", name, definition, "1") for name in ("srv", "srv2")]
    ranked = Ranker(index_data.build([*twins, *tools], table())).search("ping a host", 2)
    assert {ranked.tools[0], ranked.tools[1]} == {0, 1}
    assert ranked.relevance[1] >= 0.7


@pytest.mark.parametrize("size", [1_000, 100_000, 5_000_000])
def test_a_huge_query_costs_no_more_than_a_long_one(ranker, size):
    began = time.thread_time()
    ranker.search("read the file and then send it to somebody else " * (size // 48), 5)
    ranker.search("/a" * (size // 2) + ".md in " * 9, 5)
    assert (time.thread_time() - began) / slowness() < 5
