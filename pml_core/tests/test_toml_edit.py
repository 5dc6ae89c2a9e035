from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_core.cli.toml_edit import with_values, without_table
from pml_core.toml_text import TomlEditError, with_servers

MODE, MOST = ("gateway", "tools_exposure"), ("plugins", "hybrid", "max_underlying_tools")
FILE = """\
# mine
[gateway]
tools_exposure = "meta_only"   # for now
block = [
  "a",  # one
  "b",
]

# the git server
[servers.git]
command = "uvx"
"""


def test_a_value_is_replaced_where_it_stands_and_its_comment_stays():
    assert with_values(FILE, {MODE: "hybrid"}) == FILE.replace('"meta_only"', '"hybrid"')


def test_a_value_of_several_lines_is_replaced():
    changed = with_values(FILE, {("gateway", "block"): ["c"]})
    assert 'block = ["c"]\n\n# the git server' in changed


def test_a_new_value_stands_at_the_end_of_its_table():
    changed = with_values(FILE, {("gateway", "intent"): "mail"})
    assert ']\nintent = "mail"\n\n# the git server\n' in changed


def test_a_new_table_stands_at_the_end_of_the_file():
    assert with_values(FILE, {MOST: 20}) == FILE + "\n[plugins.hybrid]\nmax_underlying_tools = 20\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[plugins.hybrid]\n",
        "[plugins]\nhybrid.max_underlying_tools = 3 # few\n",
        "[plugins]\nhybrid = { max_underlying_tools = 3, semantic_threshold = 0.5 }\n",
        "[plugins]\nhybrid = { semantic_threshold = 0.5 }\n",
        "plugins.hybrid.max_underlying_tools = 3\n",
        "[plugins.hybrid.deeper]\nx = 1\n",
        "[plugins.other]\nx = 1",
        '["plugins".hybrid]\r\n"max_underlying_tools" = 3\r\n',
    ],
)
def test_however_the_table_is_written_the_value_gets_there(text):
    changed = with_values(text, {MOST: 20})
    assert tomllib.loads(changed)["plugins"]["hybrid"]["max_underlying_tools"] == 20
    assert with_values(changed, {MOST: 20}) == changed
    assert ("\r\n" in text) == ("\r\n" in changed)


def test_what_cannot_be_changed_safely_is_refused():
    with pytest.raises(TomlEditError, match="safely"):
        with_values("[[plugins]]\nx = 1\n", {MOST: 20})
    with pytest.raises(TomlEditError, match="not valid TOML"):
        with_values("[plugins", {MOST: 20})


TEXTS = [
    'x = """\n[plugins.hybrid]\n[servers.pml]\n"""\n[gateway]\n',
    "x = '''\n[servers.pml]\n'''\n\n[servers.git] # mine\nargs = [\n  'a', # ]\n  '[servers.pml]',\n]\n",
    'lists = [\n  ["servers.pml"],\n  ["plugins"],\n]\ntext = """ # "\n[plugins.hybrid]\nmax_underlying_tools = 3"""\n',
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_looks_like_a_table_within_a_text_or_an_array_is_none(text):
    before = tomllib.loads(text)
    changed = with_values(text, {MOST: 20, ("servers", "pml", "command"): "pml"})
    servers = {**before.get("servers", {}), "pml": {"command": "pml"}}
    assert tomllib.loads(changed) == {**before, "plugins": {"hybrid": {"max_underlying_tools": 20}}, "servers": servers}
    assert all(line in changed.splitlines() for line in text.splitlines())
    assert tomllib.loads(without_table(without_table(changed, ("servers", "pml")), ("plugins",))) == before
    replaced = with_servers(changed, {"pml": {"command": "other"}})
    assert tomllib.loads(replaced)["servers"]["pml"] == {"command": "other"}
    assert with_servers(replaced, {"pml": {"command": "pml"}}) == changed


def test_a_table_is_taken_out_with_those_in_it():
    text = 'a = 1\n\n[s.pml]\ncommand = "x"\n\n[s.pml.env]\nA = "1"\n\n# git\n[s.git]\nb = 2\n'
    assert without_table(text, ("s", "pml")) == "a = 1\n\n# git\n[s.git]\nb = 2\n"
    assert without_table(text, ("s", "none")) == text


@pytest.mark.parametrize("text", ["", FILE, "[a]\nb = 1", '[mcp_servers.git]\ncommand = "x"\n'])
def test_a_table_that_was_put_in_comes_out_again(text):
    path = ("mcp_servers", "pml")
    changed = with_values(text, {(*path, "command"): "pml", (*path, "args"): ["serve"]})
    assert tomllib.loads(without_table(changed, path)) == tomllib.loads(text)


names = st.sampled_from(["gateway", "plugins", "hybrid", "a b", "x.y", "z"])


@given(
    first=st.dictionaries(st.lists(names, min_size=2, max_size=3).map(tuple), st.integers() | st.text(max_size=5)),
    second=st.dictionaries(st.lists(names, min_size=2, max_size=3).map(tuple), st.booleans() | st.text(max_size=5)),
)
def test_values_are_all_there_or_the_text_is_refused(first, second):
    try:
        text = with_values("# top\n", first)
        changed = with_values(text, second)
    except TomlEditError:
        return
    assert changed.startswith("# top\n") or "# top\n" in changed
    for path, value in second.items():
        tree = tomllib.loads(changed)
        for name in path:
            tree = tree[name]
        assert tree == value or isinstance(tree, dict)
