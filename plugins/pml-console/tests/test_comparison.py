from __future__ import annotations

import pytest

from pml_console.pages.comparison import LONGEST, MOST_CHANGES, Change, changes, visible


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"a": 1}, {"a": 2}, [Change("a", "changed", "1", "2")]),
        ({"a": 1}, {"a": True}, [Change("a", "changed", "1", "true")]),
        ({"a": None}, {}, [Change("a", "removed", "null")]),
        ({}, {"a": None}, [Change("a", "added", now="null")]),
        ({"to": {"cc": ["x", "y"]}}, {"to": {"cc": ["x", "z", "q"]}},
         [Change("to.cc[1]", "changed", "y", "z"), Change("to.cc[2]", "added", now="q")]),
        ({"to": {"a.b": 1}}, {"to": {"a.b": 2, "c\u202e": 1}},
         [Change('to["a.b"]', "changed", "1", "2"), Change('to["c\\u202e"]', "added", now="1")]),
        ({"a": [1]}, {"a": {"b": 1}}, [Change("a", "changed", "[1]", '{"b": 1}')]),
        (1, 2, [Change("", "changed", "1", "2")]),
        ({"code": "a\nb\nc"}, {"code": "a\nx\nc"},
         [Change("code", "changed", "a\nb\nc", "a\nx\nc", ("  a", "- b", "+ x", "  c"))]),
    ],
)  # fmt: skip
def test_members_that_are_different_are_found(before, now, found):
    assert changes(before, now) == found


@pytest.mark.attack
def test_what_is_found_is_bounded():
    many = changes({}, {str(number): "x" * 1_000_000 for number in range(3 * MOST_CHANGES)})
    assert len(many) == MOST_CHANGES
    assert all(len(one.now) < 2 * LONGEST and "more characters" in one.now for one in many)
    (long,) = changes({}, {"x" * 1_000_000: 1})
    assert len(long.path) < 2 * LONGEST
    deep: object = "x"
    for _ in range(300):
        deep = [deep]
    assert len(changes(deep, [deep])) == 1
    assert changes({"a": "x\n" * 100_000}, {"a": "y\n" * 100_000})[0].lines == ()


@pytest.mark.attack
def test_no_character_hides_or_turns_others_around():
    assert visible("a\u202eb\x1b[2J\u200b\ud800\u2028") == "a\\u202eb\\u001b[2J\\u200b\\ud800\\u2028"
    assert visible("two\nlines\tand ünï 漢字") == "two\nlines\tand ünï 漢字"
    assert changes({"a": "x"}, {"a": "x\u200b"})[0].now == "x\\u200b"
