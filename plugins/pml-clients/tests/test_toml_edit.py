from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_clients.toml_edit import TomlEditError, with_servers, with_values, without_table

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


EVERY_WAY = """\
# the top

title = 'it'   # no table
"quoted key" = \"\"\"
[gateway]
# not a comment
\"\"\"

[gateway]   # ours
tools_exposure   =   "x # y" # my note
intent = 'C:\\path'\t# tab
block = [ "a", # one
    "b"   , ]
limits = {a=1,b  = 2}
search.top = 0x10
search.ratio = 1_000.5
when = 1979-05-27T07:32:00Z

# the list
[[rules]]
name = "one"

  [[rules]] # two
  name = "two"
# between

[servers."a b".env]
X = "1"

[other]
y = 2

[servers."a b"]   # the first
command = "uvx" ~

# the last word
""".replace("~", "  ")
FORMS = {
    "lines of Linux": EVERY_WAY,
    "lines of Windows": EVERY_WAY.replace("\n", "\r\n"),
    "no final line break": EVERY_WAY.rstrip("\n"),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("path", "value", "line", "changed"),
    [
        (MODE, "hybrid", 'tools_exposure   =   "x # y" # my note', 'tools_exposure   =   "hybrid" # my note'),
        (("gateway", "intent"), 'a "b" # c', "intent = 'C:\\path'", 'intent = "a \\"b\\" # c"'),
        (("gateway", "limits", "b"), 3, "{a=1,b  = 2}", "{a=1,b  = 3}"),
        (("gateway", "search", "top"), 17, "search.top = 0x10", "search.top = 17"),
        (("servers", "a b", "env", "X"), "2", 'X = "1"', 'X = "2"'),
        (("servers", "a b", "command"), "npx", 'command = "uvx"   ', 'command = "npx"   '),
        (("title",), True, "title = 'it'   #", "title = true   #"),
    ],
)
def test_all_of_a_file_but_the_value_stays_byte_by_byte(text, path, value, line, changed):
    assert text.count(line) == 1
    assert with_values(text, {path: value}) == text.replace(line, changed)


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("path", "behind", "line"),
    [
        (("gateway", "new"), "when = 1979-05-27T07:32:00Z", 'new = "v"'),
        (("gateway", "search", "new"), "search.ratio = 1_000.5", 'search.new = "v"'),
        (("servers", "a b", "env", "new"), 'X = "1"', 'new = "v"'),
        (("servers", "a b", "new"), 'command = "uvx"   ', 'new = "v"'),
    ],
)
def test_what_is_put_in_stands_behind_what_its_table_says_and_in_front_of_the_comment_of_the_next(
    text, path, behind, line
):
    newline = "\r\n" if "\r\n" in text else "\n"
    assert with_values(text, {path: "v"}) == text.replace(behind, behind + newline + line)


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_a_new_table_is_put_behind_everything(text):
    changed = with_values(text, {MOST: 20})
    newline = "\r\n" if "\r\n" in text else "\n"
    block = f"{newline}[plugins.hybrid]{newline}max_underlying_tools = 20{newline}"
    assert changed == text.removesuffix(newline) + newline + block
    assert without_table(changed, ("plugins",)) == text.removesuffix(newline) + newline


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_taken_out_is_what_a_table_says_and_no_comment_of_others(text):
    newline = "\r\n" if "\r\n" in text else "\n"
    mine = ['[servers."a b".env]\nX = "1"\n\n', '[servers."a b"]   # the first\ncommand = "uvx"   \n\n']
    expected = text
    for one in mine:
        expected = expected.replace(one.replace("\n", newline), "")
    assert without_table(text, ("servers", "a b")) == expected


def test_a_table_is_replaced_however_it_is_written():
    for text, expected in (
        ('servers = { git = { command = "mine" } } # s\n', 'servers = { git = {command = "x"} } # s\n'),
        ('[servers]\ngit = { command = "mine" } # s\n', '[servers]\ngit = {command = "x"} # s\n'),
        ('[servers.git]\ncommand = "mine"\n\n# o\n[o]\n', '[servers.git]\ncommand = "x"\n\n# o\n[o]\n'),
    ):
        assert with_servers(text, {"git": {"command": "x"}}) == expected


def test_out_of_a_table_on_one_line_goes_one_of_its_keys():
    text = 'servers = { git = { command = "a" }, pml = { command = "b" } } # s\n'
    left = without_table(text, ("servers", "pml"))
    assert left.replace(" ", "") == 'servers={git={command="a"}}#s\n'


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("[[plugins]]\nx = 1\n", MOST, 20),
        ("plugins = 3\n", MOST, 20),
        ("[gateway.tools_exposure]\nx = 1\n", MODE, "hybrid"),
    ],
)
def test_what_would_lose_something_is_refused_by_its_name(text, path, value):
    with pytest.raises(TomlEditError, match=f"{'.'.join(path)} is written in a way that cannot be changed safely"):
        with_values(text, {path: value})


def test_a_file_that_is_not_valid_is_refused_with_line_and_column():
    with pytest.raises(TomlEditError, match=r"^not valid TOML: .*line 2, column \d+.*; correct it first$"):
        with_values("[gateway]\nx = = 1\n", {MODE: "hybrid"})


texts = st.text(max_size=20)
tables = st.fixed_dictionaries(
    {"command": texts, "args": st.lists(texts, max_size=3), "env": st.dictionaries(texts, texts, max_size=3)},
    optional={"timeout_s": st.floats(min_value=1e-9, max_value=1e12), "enabled": st.booleans(), "a b": texts},
)


@given(st.dictionaries(texts, tables, max_size=4))
def test_written_tables_are_read_back_equal(servers):
    assert tomllib.loads(with_servers("", servers)).get("servers", {}) == servers


@given(st.dictionaries(texts, tables, max_size=3), st.dictionaries(texts, tables, max_size=3))
def test_replacing_and_adding_tables_changes_nothing_else(before, after):
    head = '# mine\n[gateway]\nstrict = true # yes\n\n[plugins."x.y"]\nlist = [\n  "a",\n]\n'
    text = with_servers(f"{head}\n", before)
    changed = with_servers(text, after)
    assert changed.startswith(head)
    assert tomllib.loads(changed) == {
        **tomllib.loads(head),
        **({"servers": {**before, **after}} if before or after else {}),
    }
    assert with_servers(changed, after) == changed


def test_a_table_in_pieces_is_replaced_as_a_whole():
    text = "[servers.a.env]\nX = 1\n\n[other]\n[servers.a]\ny = 2\n# note\n"
    assert with_servers(text, {"a": {"z": 3}}) == "[servers.a]\nz = 3\n\n[other]\n# note\n"


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
