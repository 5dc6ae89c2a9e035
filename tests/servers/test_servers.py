"""The comparison itself: arguments of a schema, what counts as a difference, and the list of servers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import comparing
import table
from allowed import explanation
from calls import GOOD, ODD, WRONG, planned
from comparing import Difference, differences, unstable
from entries import read

TOOL = {
    "name": "add",
    "inputSchema": {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": "none"},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
        },
        "required": ["a"],
        "$defs": {"tag": {"enum": ["red", "blue"]}},
    },
}


def test_a_tool_is_called_with_good_odd_and_wrong_arguments():
    calls = {call.label: call for call in planned(TOOL)}
    assert calls["what is required"].arguments == {"a": 1}
    assert calls["everything"].arguments == {"a": 1, "note": "none", "tags": ["red"]}
    assert calls["numbers, lists and objects as text"].arguments == {"a": "1", "note": "none", "tags": '["red"]'}
    assert calls["null for what is optional"].arguments == {"a": 1, "note": None, "tags": None}
    assert calls["an unknown member"].arguments == {"a": 1, "unknown_member": 1}
    assert calls["nothing"].arguments == {}
    assert calls["another type for each"].arguments["a"] == {"not": "this"}
    assert {call.kind for call in calls.values()} == {GOOD, ODD, WRONG}


def test_examples_come_first_and_nothing_is_sent_twice():
    calls = planned(TOOL, [{"a": 1}])
    assert calls[0].label == "example 1"
    assert len({str(call.arguments) for call in calls}) == len(calls)


def test_only_what_direct_runs_share_is_compared():
    runs = [{"text": f"at 12:0{minute} it rained", "sum": 3} for minute in (1, 2)]
    moving = dict(unstable(runs))
    assert list(moving) == [("text",)]
    assert not list(differences(runs[0], {"text": "at 12:07 it rained", "sum": 3}, moving))
    assert [path for path, *_ in differences(runs[0], {"text": "at 12:07 it snowed", "sum": 4}, moving)] == [
        ("sum",),
        ("text",),
    ]


def test_numbers_in_a_text_that_moves_are_not_compared_and_its_words_are():
    moving = {("text",): ["CPU: 0.5, used by 17", "CPU: 0.5, used by 23"]}
    assert not list(differences({"text": "CPU: 0.5, used by 17"}, {"text": "CPU: 11, used by 17"}, moving))
    assert list(differences({"text": "CPU: 0.5, used by 17"}, {"text": "CPU: 0.5, kept by 17"}, moving))
    ids = ("7af87f33-3975-4af4-a265-34fb26f9d414", "5aec214a-ecde-4073-a0b4-03167d481905")
    assert not list(differences({"text": f"id {ids[0]}"}, {"text": f"id {ids[1]}"}, {("text",): [f"id {ids[0]}"] * 2}))
    still = {"text": "CPU: 0.5"}
    assert list(differences(still, {"text": "CPU: 0.6"}, moving={}))


def test_items_of_a_list_that_direct_runs_mix_may_be_mixed_otherwise():
    runs = [{"content": ["a is missing", "b is missing"]}, {"content": ["b is missing", "c is missing"]}]
    moving = dict(unstable(runs))
    assert not list(differences(runs[0], {"content": ["c is missing", "a is missing"]}, moving))
    assert list(differences(runs[0], {"content": ["d was lost", "a is missing"]}, moving))


def test_only_what_an_entry_names_varies():
    (entry,) = [entry for entry in read() if entry.name == "desktop-commander"]
    assert entry.varying("get_config/structuredContent/config/systemInfo/memory/rss")
    assert not entry.varying("get_config/structuredContent/config/currentClient/name")
    assert not entry.varying("get_config")


def test_a_member_that_is_missing_or_more_is_a_difference():
    assert list(differences({"a": 1}, {"b": 2}, {})) == [(("a",), 1, None), (("b",), None, 2)]


@pytest.mark.parametrize(
    ("path", "through", "explained"),
    [
        (("result", "_meta"), {"pml/failure": {}}, True),
        (("result", "_meta"), {"pml/failure": {}, "other": 1}, False),
        (("result", "_meta", "pml/failure"), {}, True),
        (("result", "content"), [], False),
    ],
)
def test_only_what_a_rule_names_is_explained(path, through, explained):
    found = Difference("git", "stdio", "tools/call log: everything", path, None, through)
    assert (explanation(found) is not None) is explained


def test_the_order_of_a_list_is_explained_and_a_missing_item_is_not():
    assert explanation(Difference("git", "stdio", "tools/list", ("order",), ("b", "a"), ("a", "b")))
    assert not explanation(Difference("git", "stdio", "tools/list", ("order",), ("b", "a"), ("a",)))


def test_a_greeting_begins_with_the_servers_own_and_its_name_is_the_servers():
    def found(path, direct, through):
        return Difference("git", "stdio", "initialize", path, direct, through)

    assert explanation(found(("instructions",), "Reads.", "Reads.\nTools are listed as git__tool."))
    assert explanation(found(("instructions",), None, "Tools are listed as git__tool."))
    assert not explanation(found(("instructions",), "Reads.", "Tools are listed as git__tool."))
    assert not explanation(found(("serverInfo", "name"), "git", "pml"))
    assert not explanation(Difference("git", "stdio", "tools/call log: nothing", ("result",), {}, None))


def test_what_the_gateway_notes_after_an_error_is_told_apart_from_the_servers_own_words():
    own, note = {"type": "text", "text": "no"}, {"type": "text", "text": f"{comparing.NOTE}$.a is missing"}
    failed = {"result": {"isError": True, "content": [own, note]}}
    assert comparing.without_note(failed) == ({"result": {"isError": True, "content": [own]}}, note["text"])
    error = {"error": {"code": -32602, "message": f"no\n{note['text']}"}}
    assert comparing.without_note(error) == ({"error": {"code": -32602, "message": "no"}}, note["text"])
    fine = {"result": {"content": [own, note]}}
    assert comparing.without_note(fine) == (fine, None)
    assert explanation(Difference("git", "stdio", "tools/call log: nothing", ("note",), None, note["text"]))
    assert not explanation(Difference("git", "stdio", "tools/call log: nothing", ("note",), "other", note["text"]))


def test_what_a_gateway_of_all_has_for_all_is_not_compared():
    assert comparing.skipped("all", "initialize")
    assert comparing.skipped("all", "later: resources/list")
    assert not comparing.skipped("all", "later: tools/list")
    assert comparing.skipped("call_tool", "prompts/get x: all arguments")


def test_results_of_several_runs_are_one_row_for_each_server():
    def row(ways, places=(), *, broken=(), absent=""):
        found = [{"way": way, "place": place} for way, place in places]
        ran = {"ways": list(ways), "broken": dict.fromkeys(broken, "late"), "differences": found}
        return {"name": "git", "absent": absent, **ran}

    first = row(["stdio", "http"], [("stdio", "a"), ("http", "b")], broken=["call_tool"])
    (found,) = table.merged([first, row(["stdio", "all"], [("all", "c")]), row([], broken=["http"])])
    assert found["ways"] == ["stdio", "all"]
    assert found["broken"] == {"call_tool": "late", "http": "late"}
    assert [each["place"] for each in found["differences"]] == ["c"]
    assert table.merged([first, row([], absent="does not start")]) == [first]
    assert table.merged([row([], absent="does not start"), first]) == [first]


def test_at_least_forty_servers_have_exact_versions():
    servers = read()
    assert len(servers) >= 40
    assert all(entry.version[0].isdigit() and entry.licence for entry in servers)
    assert len({entry.package for entry in servers}) == len(servers)
