from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_clients import jsonc
from pml_clients.json_edit import JsonEditError, with_member, without_member

ENTRY = {"command": "pml", "args": ["serve"]}
PATH = ("mcpServers", "pml")
COMMENTED = """\
{
    // what I use
    "mcpServers": {
        "gh": {"command": "npx" /* why not */, "args": ["-y", "[gh]", "}"]}, // tail
    },
    "other": [1, {"a": "}"}, /* , */ 2,],
}
"""


def test_a_member_is_put_first_with_the_indentation_of_its_neighbours_and_all_else_stays():
    changed = with_member(COMMENTED, PATH, ENTRY)
    head, tail = COMMENTED.split('        "gh"')
    assert changed.startswith(head)
    assert changed.endswith('        "gh"' + tail)
    assert '        "pml": {\n            "command": "pml",' in changed
    assert jsonc.loads(changed)["mcpServers"]["pml"] == ENTRY


@pytest.mark.parametrize(
    "text",
    [
        COMMENTED,
        '{"mcpServers":{"a":{}}}',
        '{ "mcpServers": { "a": {} } }\n',
        '{\r\n\t"mcpServers": {\r\n\t\t"a": {}\r\n\t}\r\n}\r\n',
        '{\n  "mcpServers": { // mine\n    "a": {"x": "\\"}"}\n  }\n}',
    ],
)
def test_what_was_put_in_comes_out_again_byte_by_byte(text):
    assert without_member(with_member(text, PATH, ENTRY), PATH) == text


@pytest.mark.parametrize("text", ["", " \n", "{}", "{\n}\n", '{"mcpServers": {}}', '{"a": 1}', "// nothing yet\n{}"])
def test_objects_on_the_way_are_made(text):
    changed = with_member(text, PATH, ENTRY)
    before = jsonc.loads(text) if text.strip() else {}
    assert jsonc.loads(changed) == {**before, "mcpServers": {**before.get("mcpServers", {}), "pml": ENTRY}}


def test_an_earlier_value_is_replaced_where_it_stands():
    text = '{\n  "mcpServers": {\n    "pml": {"command": "old"}, // mine\n    "z": {}\n  }\n}\n'
    changed = with_member(text, PATH, ENTRY)
    assert changed.endswith(', // mine\n    "z": {}\n  }\n}\n')
    assert list(jsonc.loads(changed)["mcpServers"]) == ["pml", "z"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"s": {"a": 1, "pml": 2}}', '{"s": {"a": 1}}'),
        ('{"s": {"pml": 2, "a": 1}}', '{"s": {"a": 1}}'),
        ('{"s": {"pml": 2}}', '{"s": {}}'),
        ('{"s": {"a": 1, "pml": 2,}}', '{"s": {"a": 1,}}'),
        ('{"s": {"a": 1}}', '{"s": {"a": 1}}'),
        ('{"t": 1}', '{"t": 1}'),
    ],
)
def test_a_member_is_taken_out_wherever_it_stands(text, expected):
    assert jsonc.loads(without_member(text, ("s", "pml"))) == jsonc.loads(expected)


def test_a_comment_of_the_users_before_the_member_stays():
    text = '{\n  "s": {\n    "a": 1,\n    // keep me\n    "pml": 2\n  }\n}\n'
    assert "// keep me" in without_member(text, ("s", "pml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not valid JSON"),
        ("[1]", "list where an object belongs"),
        ('{"mcpServers": [1]}', "list where an object belongs"),
        ('{"mcpServers": "x"}', "str where an object belongs"),
    ],
)
def test_what_cannot_be_changed_is_refused(text, said):
    with pytest.raises(JsonEditError, match=said):
        with_member(text, PATH, ENTRY)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(
    tree=st.dictionaries(st.text(max_size=6), values, max_size=4),
    servers=st.dictionaries(st.text(max_size=6).filter(lambda name: name != "pml"), values, max_size=3),
    indent=st.sampled_from([None, 1, 2, "\t"]),
)
def test_any_file_is_changed_and_restored(tree, servers, indent):
    text = json.dumps({**tree, "mcpServers": servers}, indent=indent)
    changed = with_member(text, PATH, ENTRY)
    assert jsonc.loads(changed) == {**tree, "mcpServers": {**servers, "pml": ENTRY}}
    back = without_member(changed, PATH)
    assert jsonc.loads(back) == {**tree, "mcpServers": servers}
    if servers:
        assert back == text
