"""What was accepted of a server's tools, and what differs from it."""

from __future__ import annotations

import json

import pytest

from pml_catalog import definitions
from pml_catalog.definitions import Definitions, HeldError, changed
from pml_catalog.live import make_entry


def entry(name="a", **members):
    return make_entry("s", {"name": name, "inputSchema": {"type": "object"}, **members})


def seen(*entries, holds):
    made = Definitions(holds=holds)
    assert made.judge(list(entries)) == (list(entries), [])
    return Definitions.of(json.loads(json.dumps(made.kept())), holds=holds)


@pytest.mark.parametrize("holds", [False, True])
def test_what_is_no_part_of_a_decision_may_change(holds):
    made = seen(entry(_meta={"v": 1}), holds=holds)
    newer = entry(_meta={"v": 2}, icons=[])
    assert made.judge([newer]) == ([newer], [])


def test_a_change_is_said_once_and_shown_from_what_was_looked_at_last():
    made = seen(entry(description="one"), holds=False)
    for description in ("two", "three"):
        now = entry(description=description)
        shown, said = made.judge([now])
        assert (shown, [change.fields for change in said]) == ([now], [("description",)])
        assert made.judge([now]) == ([now], [])
    (change,) = made.changes.values()
    assert (change.before["description"], change.now["description"]) == ("one", "three")


def test_what_is_held_is_shown_as_it_was_and_let_go_when_it_is_so_again():
    first, second = entry(description="one"), entry(description="two")
    made = seen(first, holds=True)
    shown, said = made.judge([second, entry("b")])
    assert ([one.definition for one in shown], [change.fields for change in said]) == (
        [first.definition],
        [("description",), ("new",)],
    )
    assert shown[0].digest == first.digest
    for tool in ("a", "b"):
        with pytest.raises(HeldError):
            made.check(tool)
    made.judge([first])
    made.check("a")
    assert made.changes == {}


def test_a_tool_that_was_away_is_compared_with_what_it_was():
    made = seen(entry(description="one"), entry("b"), holds=True)
    made.judge([entry("b")])
    made.judge([entry(description="two"), entry("b")])
    assert [*made.changes] == ["a"]


@pytest.mark.parametrize("holds", [False, True])
def test_it_is_kept_what_was_new_and_what_changed_also_once_it_is_accepted(holds, monkeypatch):
    made = seen(entry(description="one"), holds=holds)
    assert made.noted == {}
    made.judge([entry(description="two"), entry("b")])
    made.accept([*made.changes], "s")
    kept = Definitions.of(json.loads(json.dumps(made.kept())), holds=holds)
    assert {tool: note["fields"] for tool, note in kept.noted.items()} == {"a": ["description"], "b": ["new"]}
    monkeypatch.setattr(definitions, "MOST_CHANGES", 1)
    kept.judge([entry(description="two"), entry("b", title="B")])
    assert {tool: note["fields"] for tool, note in kept.noted.items()} == {"b": ["title"]}


def test_what_was_kept_before_there_were_notes_can_be_read():
    kept = seen(entry(), holds=False).kept()
    del kept["noted"]
    assert Definitions.of(kept, holds=False).noted == {}


def test_an_empty_list_is_not_what_is_seen_first():
    made = Definitions(holds=True)
    made.judge([])
    assert made.kept() is None
    assert made.judge([entry()]) == ([entry()], [])


@pytest.mark.parametrize(("before", "now"), [(True, 1), (1, 1.0), (None, False)])
def test_values_are_compared_as_json(before, now):
    assert changed({"annotations": {"x": before}}, {"annotations": {"x": now}}) == ("annotations",)


@pytest.mark.attack("What changed is said", "list ever new tools, so that all that is known of a server grows for ever")
@pytest.mark.parametrize("holds", [False, True])
def test_what_is_known_of_a_server_is_bounded(holds, monkeypatch):
    monkeypatch.setattr(definitions, "MOST", 20)
    monkeypatch.setattr(definitions, "MOST_CHANGES", 5)
    made = seen(entry(), holds=holds)
    for i in range(100):
        made.judge([entry(), entry(f"t{i}"), entry("u", description=str(i))])
    assert len(made.accepted) <= 20
    assert len(made.changes) <= 5
    assert "a" in made.accepted
