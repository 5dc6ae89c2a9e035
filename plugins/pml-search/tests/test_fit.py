"""Wishes that no tool fits find nothing, and a tool's relevance is its own."""

from __future__ import annotations

import pytest

from pml_search import action_conflicts, calibration, fit, index_data
from pml_search._numpy import np
from pml_search.piece_vectors import table
from pml_search.ranker import Ranker
from pml_search.rows import Tool

DESK = {
    "git:git_log": "Shows the commit logs",
    "git:git_commit": "Records changes to the repository",
    "git:git_status": "Shows the working tree status",
    "git:git_diff_unstaged": "Shows changes in the working directory that are not yet staged",
    "git:git_create_branch": "Creates a new branch from an optional base branch",
    "memory:create_entities": "Create multiple new entities in the knowledge graph",
    "memory:delete_entities": "Delete multiple entities and their associated relations from the knowledge graph",
    "memory:delete_relations": "Delete multiple relations from the knowledge graph",
    "memory:search_nodes": "Search for nodes in the knowledge graph based on a query",
    "filesystem:read_file": "Read the complete contents of a file from the file system.",
    "filesystem:write_file": "Create a new file or completely overwrite an existing file with new content.",
    "filesystem:move_file": "Move or rename files and directories.",
    "filesystem:create_directory": "Create a new directory or ensure a directory exists.",
    "filesystem:list_directory": "Get a detailed listing of all files and directories in a specified path.",
    "time:get_current_time": "Get current time in a specific timezone",
    "fetch:fetch": "Fetches a URL from the internet and extracts its contents as markdown.",
}
"""Tools of public servers, by their own words."""


def tools():
    """As the index wants them."""
    named = ((id, *id.split(":"), description) for id, description in DESK.items())
    return [Tool(id, server, {"name": name, "description": about}, id) for id, server, name, about in named]


@pytest.fixture(scope="module")
def desk():
    return Ranker(index_data.build(tools(), table()))


@pytest.mark.parametrize(
    "wish",
    [
        "send an email",
        "delete a file",
        "create github issue",
        "delete a directory",
        "lösche eine Datei",
        "post a message to the team",
        "restart a docker container",
        "weather forecast for Berlin",
        "zzzz",
    ],
)
def test_a_wish_that_no_tool_fits_keeps_nothing(desk, wish):
    found = desk.search(wish, 8)
    assert found is None or found.relevance[0] < 0.5


def test_a_servers_name_alone_does_not_make_its_tools_fit():
    described = {"write_note": "Add a line of text to the notebook.", "fail": "Fail, always."}
    made = [Tool(f"notes:{name}", "notes", {"name": name, "description": of}, name) for name, of in described.items()]
    found = Ranker(index_data.build(made, table())).search("write a note", 2)
    assert [made[place].id for place in found.tools] == ["notes:write_note", "notes:fail"]
    assert found.relevance[0] > 0.9
    assert found.relevance[1] < 0.5


@pytest.mark.parametrize(
    ("wish", "tool"),
    [
        ("rename a file", "filesystem:move_file"),
        ("delete an entity", "memory:delete_entities"),
        ("what time is it in Tokyo", "time:get_current_time"),
        ("erstelle einen neuen Ordner", "filesystem:create_directory"),
        ("make a new branch", "git:git_create_branch"),
        ("what changed recently in the repository", "git:git_log"),
    ],
)
def test_a_wish_that_a_tool_fits_finds_it(desk, wish, tool):
    found = desk.search(wish, 8)
    assert desk.data.ids[found.tools[0]] == tool
    assert found.relevance[0] >= 0.5


WISHES = ("create a directory", "read a file", "show the changes", "search the graph")


def own(ranker, wish):
    """By id the relevance that each tool has by itself."""
    found = ranker.search(wish, 16)
    alone = [float(calibration.relevance(calibration.probability(np.array([fit])))[0]) for fit in found.fits]
    return dict(zip((ranker.data.ids[tool] for tool in found.tools), alone, strict=True)), found


@pytest.mark.parametrize("wish", WISHES)
def test_a_relevance_stays_what_it_is_when_the_best_tool_is_not_there(desk, wish):
    before, found = own(desk, wish)
    best = desk.data.ids[found.tools[0]]
    after, _ = own(Ranker(index_data.build([tool for tool in tools() if tool.id != best], table())), wish)
    assert after == {tool: pytest.approx(relevance, abs=1e-6) for tool, relevance in before.items() if tool != best}


@pytest.mark.parametrize("wish", WISHES)
def test_a_tool_is_as_relevant_as_the_best_of_those_behind_it(desk, wish):
    alone, found = own(desk, wish)
    behind = list(alone.values())
    assert found.relevance.tolist() == pytest.approx([max(behind[place:]) for place in range(len(behind))])


@pytest.mark.parametrize(
    ("text", "named", "told", "conflict"),
    [
        ("delete a file", "write", "write a file", "does not destroy or make that"),
        ("delete a file", "file manager", "delete or move files", "none"),
        ("show the issue", "delete issue", "", "destroys"),
        ("what is in the file", "write file", "", "writes where something is asked"),
        ("rename the file", "read file", "", "reads only"),
        ("merge a request", "create request", "", "another act"),
        ("a file", "write file", "", "none"),
        ("create a file", "file", "", "none"),
    ],
)
def test_acts_that_exclude_each_other_are_told_apart(text, named, told, conflict):
    def of(words):
        found = 0
        for word in words.split():
            found |= action_conflicts.OF_VERB.get(word, 0)
        return found

    wanted = action_conflicts.asked(text)[1]
    assert action_conflicts.CONFLICTS[action_conflicts.conflict(wanted, of(named), of(f"{named} {told}"))] == conflict


@pytest.mark.parametrize(
    ("term", "word"), [("director", "directory"), ("creat", "create"), ("fil", "fil"), ("repositor", "repository")]
)
def test_a_stem_is_spelt_as_a_common_word_whatever_the_catalog_writes(term, word):
    assert fit.spelling(term, table()) == word


@pytest.mark.parametrize(
    ("wish", "length"), [("rename a file", 2), ("read commit logs about " + " ".join(map(str, range(20))), fit.LONG)]
)
def test_words_of_a_request_that_say_something_count_up_to_a_bound(desk, wish, length):
    assert desk._fitter.of(desk.prepare(wish), np.arange(3)).length[0] == length
