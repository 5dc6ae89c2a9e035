from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_executor_dag.references import MissingError, fill, look_up, pointer
from pml_kit.references import Reference, Slot, find, parse, path_text

RESULT = {"items": [{"name": "a"}, {"name": "b"}], "Due date": "today", "none": None, "0": "zero"}


@pytest.mark.parametrize(
    ("text", "task", "path"),
    [
        ("{{a}}", "a", ()),
        ("{{ a.items }}", "a", ("items",)),
        ("{{a.items[1].name}}", "a", ("items", 1, "name")),
        ("{{a.items.1}}", "a", ("items", "1")),
        ('{{a["Due date"]}}', "a", ("Due date",)),
        ("{{a[0]}}", "a", (0,)),
        ("{{task-1_x.größe}}", "task-1_x", ("größe",)),
    ],
)
def test_a_reference_names_a_task_and_a_path(text, task, path):
    assert parse(text) == (Reference(text, task, path),)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (r"\{{a}}", ("{{a}}",)),
        (r"\\{{a}}", ("\\", Reference("{{a}}", "a", ()))),
        (r"\\\{{a}}", (r"\{{a}}",)),
        (r"c:\dir \{{x}} {{a}}!", (r"c:\dir {{x}} ", Reference("{{a}}", "a", ()), "!")),
        (r"\n\t }} \{ {", (r"\n\t }} \{ {",)),
    ],
)
def test_a_backslash_makes_braces_plain_text(text, parts):
    assert parse(text) == parts


@pytest.mark.parametrize(
    "text", ["{{", "{{}}", "{{a", "{{a b}}", "{{a | upper}}", "{{#each x}}", "{{a[x]}}", "{{a.}}", "{{a..b}}"]
)
def test_braces_that_are_no_reference_are_a_mistake(text):
    with pytest.raises(ValueError, match=r"{{"):
        parse(f"before {text} after")


def freely(_reference, _value, *, whole):
    """Takes everything."""


def test_references_are_found_at_any_depth_and_in_document_order():
    arguments = {"a": "{{x}}", "b": [1, {"c": ("no", "{{y}} and {{z}}")}], "d": "plain", "e": "{{", "{{k}}": 1}
    found = find(arguments)
    slots = found.slots
    assert [slot.path for slot in slots] == [("a",), ("b", 1, "c", 1)]
    assert [r.task for slot in slots for r in slot.references] == ["x", "y", "z"]
    assert found.unreadable == [(("e",), "{{")]


def test_deeply_nested_arguments_do_not_exhaust_the_stack():
    arguments: dict = {"x": "{{a}}"}
    for _ in range(5000):
        arguments = {"x": arguments}
    slots = find(arguments).slots
    filled = fill(arguments, slots, lambda _: "here", freely)
    for _ in range(5000):
        filled = filled["x"]
    assert filled == {"x": "here"}


@pytest.mark.parametrize("value", [None, True, 3, 2.5, "text", [1, "x"], {"k": ["v"]}])
def test_a_lone_reference_keeps_the_type(value):
    assert fill({"x": "{{a}}"}, [Slot(("x",), parse("{{a}}"))], lambda _: value, freely) == {"x": value}


@pytest.mark.parametrize(
    ("value", "text"),
    [("s", "<s>"), (None, "<null>"), (True, "<true>"), (2.5, "<2.5>"), ({"k": ["ü"]}, '<{"k":["ü"]}>')],
)
def test_inside_text_a_value_is_put_in_as_text(value, text):
    assert fill({"x": "…"}, [Slot(("x",), parse("<{{a}}>"))], lambda _: value, freely) == {"x": text}


def test_what_a_reference_brings_in_is_not_looked_at_again():
    slots = find({"x": "{{a}} {{a}}"}).slots
    assert fill({"x": "…"}, slots, lambda _: "{{b}}", freely) == {"x": "{{b}} {{b}}"}


def test_filling_leaves_the_given_arguments_alone_and_shares_the_rest():
    arguments = {"a": {"b": ["{{t}}", "{{t}}"]}, "other": {"big": 1}}
    slots = find(arguments).slots
    filled = fill(arguments, slots, lambda _: 7, freely)
    assert filled == {"a": {"b": [7, 7]}, "other": {"big": 1}}
    assert arguments == {"a": {"b": ["{{t}}", "{{t}}"]}, "other": {"big": 1}}
    assert filled["other"] is arguments["other"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{a}}", RESULT),
        ("{{a.items[1].name}}", "b"),
        ("{{a.items.0.name}}", "a"),
        ('{{a["Due date"]}}', "today"),
        ("{{a.none}}", None),
        ("{{a[0]}}", "zero"),
    ],
)
def test_a_path_walks_the_result(text, value):
    assert look_up(parse(text)[0], RESULT) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{{a.itmes}}", "{{a.itmes}} finds nothing: no .itmes in a, which is an object with the keys items, Due date"),
        ("{{a.items[2]}}", "no [2] in a.items, which is an array with items [0] to [1]"),
        ("{{a.items.name}}", "no .name in a.items, which is an array"),
        ("{{a.items[0].name.first}}", 'no .first in a.items[0].name, which is the text "a"'),
        ("{{a.none.x}}", "no .x in a.none, which is the value null"),
        ('{{a["no such"]}}', 'no ["no such"] in a'),
    ],
)
def test_a_path_to_nothing_says_what_is_there(text, says):
    with pytest.raises(MissingError) as caught:
        look_up(parse(text)[0], RESULT)
    assert says in str(caught.value)


def test_a_position_of_more_digits_than_python_reads_is_not_there():
    with pytest.raises(MissingError, match="finds nothing"):
        look_up(parse(f"{{{{a.items.{'9' * 5000}}}}}")[0], RESULT)


@pytest.mark.parametrize("value", [{f"key{i}": i for i in range(500)}, "x" * 100_000, list(range(100_000))])
def test_the_message_stays_short_whatever_is_there(value):
    with pytest.raises(MissingError) as caught:
        look_up(parse("{{a.nothing}}")[0], value)
    assert len(str(caught.value)) < 400


def test_paths_are_spelled_as_references_and_as_pointers():
    path = ("items", 0, "a b", "c/d~e")
    assert path_text(path) == '.items[0]["a b"].c/d~e'
    assert pointer(path) == "/items/0/a b/c~1d~0e"


@given(st.text(alphabet=st.sampled_from("a{}\\. [0]\n")))
def test_any_text_can_be_written_with_escapes(text):
    escaped = ""
    at = 0
    while (found := text.find("{{", at)) >= 0:
        before = text[at:found]
        backslashes = len(before) - len(before.rstrip("\\"))
        escaped += before + "\\" * backslashes + "\\{{"
        at = found + 2
    assert "".join(parse(escaped + text[at:])) == text
