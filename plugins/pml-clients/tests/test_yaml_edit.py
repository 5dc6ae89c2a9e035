from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pml_clients.yaml_edit import YamlEditError, with_values, without

MODE, MOST = ("gateway", "tools_exposure"), ("gateway", "hybrid", "max_underlying_tools")
FILE = """\
# mine
gateway:
  tools_exposure: "meta_only" # for now
  block:
  - a   # one
  - b

# the git server
servers:
  git:
    command: uvx
"""


def test_a_value_is_replaced_where_it_stands_and_its_comment_stays():
    assert with_values(FILE, {MODE: "hybrid"}) == FILE.replace('"meta_only"', '"hybrid"')


def test_a_list_is_replaced_with_its_lines():
    changed = with_values(FILE, {("gateway", "block"): ["c"]})
    assert changed == FILE.replace("  block:\n  - a   # one\n  - b\n", '  block: ["c"]\n')


def test_new_values_stand_at_the_end_of_their_mapping():
    changed = with_values(FILE, {MOST: 20, ("gateway", "hybrid", "semantic_threshold"): 0.7})
    block = "  - b\n  hybrid:\n    max_underlying_tools: 20\n    semantic_threshold: 0.7\n\n# the git server"
    assert block in changed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing yet\n",
        "---\ngateway: {}\n",
        "gateway:\n",
        "gateway: # later\n",
        "'gateway':\r\n    tools_exposure: hybrid\r\n",
        "gateway:\n  hybrid:\n    max_underlying_tools: 3",
        "servers: {}\n",
    ],
)
def test_however_the_mapping_is_written_the_value_gets_there(text):
    changed = with_values(text, {MOST: 20})
    assert yaml.safe_load(changed)["gateway"]["hybrid"]["max_underlying_tools"] == 20
    assert with_values(changed, {MOST: 20}) == changed
    assert ("\r\n" in text) == ("\r\n" in changed)


EVERY_WAY = """\
# the top
%YAML_FREE
gateway: &g   # ours
    tools_exposure:   "x # y"   # my note
    intent: 'it''s: {so}'  # tab
    text: |
        first # no comment
          second

    folded: this goes
      on
    block:   # the list
      # of two
      - a   # one

      - "b"
    limits: {a: 1,b : 2,
        c: [x,
            y]}   # flow
    empty:   # later
    none: ~

# the servers
"servers":
    git:   {command: uvx, args: ["a","b"]}   # flow
    # between
    'a b':
        env: &env
            X: "1"
            # within
        also: *env
    last: {}
# the last word
""".replace("%YAML_FREE\n", "\n")
FORMS = {
    "lines of Linux": EVERY_WAY,
    "lines of Windows": EVERY_WAY.replace("\n", "\r\n"),
    "no final line break": EVERY_WAY.rstrip("\n"),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("path", "value", "line", "changed"),
    [
        (MODE, "hybrid", '"x # y"   # my note', '"hybrid"   # my note'),
        (("gateway", "intent"), "it's", "'it''s: {so}'", '"it\'s"'),
        (("gateway", "text"), "t", "|\n        first # no comment\n          second\n", '"t"\n'),
        (("gateway", "folded"), "t", "this goes\n      on", '"t"'),
        (
            ("gateway", "block"),
            ["c"],
            'block:   # the list\n      # of two\n      - a   # one\n\n      - "b"',
            'block: ["c"]   # the list',
        ),
        (("gateway", "limits", "b"), 1e-09, "b : 2", "b : 1.0e-09"),
        (("gateway", "limits", "c"), 3, "[x,\n            y]", "3"),
        (("gateway", "limits", "d"), 3, "y]}", "y], d: 3}"),
        (("gateway", "empty"), 3, "empty:   # later", "empty: 3   # later"),
        (("gateway", "empty", "e", "f"), 3, "# later\n", "# later\n      e:\n        f: 3\n"),
        (("gateway", "none"), False, "none: ~", "none: false"),
        (("gateway", "new"), "v", "none: ~\n", 'none: ~\n    new: "v"\n'),
        (("gateway", "yes", "a b"), "v", "none: ~\n", 'none: ~\n    "yes":\n      "a b": "v"\n'),
        (("servers", "git", "command"), "npx", "{command: uvx,", '{command: "npx",'),
        (("servers", "git", "env"), {"A": "b c"}, '"a","b"]}', '"a","b"], env: {"A": "b c"}}'),
        (("servers", "a b", "new"), 1, "also: *env\n", "also: *env\n        new: 1\n"),
        (("servers", "a b", "also"), {"X": "2"}, "also: *env", 'also: {"X": "2"}'),
        (("servers", "last", "command"), "x", "last: {}", 'last: {command: "x"}'),
        (("servers", "new", "command"), "x", "last: {}\n", 'last: {}\n    new:\n      command: "x"\n'),
    ],
)
def test_all_of_a_file_but_the_value_stays_byte_by_byte(text, path, value, line, changed):
    windows = "\r\n" in text
    line, changed = (one.replace("\n", "\r\n") if windows else one for one in (line, changed))
    assert text.count(line) == 1
    assert with_values(text, {path: value}) == text.replace(line, changed)


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("path", "gone"),
    [
        (("servers", "git"), '    git:   {command: uvx, args: ["a","b"]}   # flow\n'),
        (("servers", "git", "args"), ', args: ["a","b"]'),
        (("servers", "git", "command"), "command: uvx, "),
        (("servers", "a b", "also"), "        also: *env\n"),
        (("gateway", "block"), '    block:   # the list\n      # of two\n      - a   # one\n\n      - "b"\n'),
        (("gateway", "text"), "    text: |\n        first # no comment\n          second\n"),
        (("gateway", "none"), "    none: ~\n"),
    ],
)
def test_taken_out_is_what_a_key_says_and_no_comment_of_others(text, path, gone):
    gone = gone.replace("\n", "\r\n") if "\r\n" in text else gone
    if path[-1] == "none":
        assert without(text, path) == text  # says nothing
        return
    assert text.count(gone) == 1
    assert without(text, path) == text.replace(gone, "")


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_a_new_mapping_is_put_behind_the_last_one_and_comes_out_again(text):
    changed = with_values(text, {("plugins", "hybrid", "max"): 20})
    newline = "\r\n" if "\r\n" in text else "\n"
    block = f"plugins:{newline}  hybrid:{newline}    max: 20{newline}"
    assert changed == text.replace(f"last: {{}}{newline}", f"last: {{}}{newline}{block}")
    assert without(changed, ("plugins", "hybrid", "max")) == text


def test_a_mapping_on_one_line_is_changed_within_it():
    text = "gateway: {store: sqlite}\n"
    assert with_values(text, {MODE: "hybrid"}) == 'gateway: {store: sqlite, tools_exposure: "hybrid"}\n'
    deep = 'gateway: {store: sqlite, hybrid: {"max_underlying_tools": 20}}\n'
    assert with_values(text, {MOST: 20}) == deep
    assert without(deep, MOST) == text
    assert with_values("{}\n", {MODE: "hybrid"}) == '{gateway: {"tools_exposure": "hybrid"}}\n'


def test_what_a_merge_key_gives_is_overruled_beside_it():
    text = "base: &b {x: 1}\ngateway:\n  <<: *b # all\n  y: 2\n"
    assert with_values(text, {("gateway", "x"): 3}) == text + "  x: 3\n"
    with pytest.raises(YamlEditError, match=r"gateway\.x is written in a way that cannot be changed safely"):
        without(text, ("gateway", "x"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gateway: &g\n  x: 1\nother: *g\n", "safely"),
        ("x: &g {a: 1}\ngateway: *g\n", "safely"),
        ("gateway: {tools_exposure: &m full_proxy}\nother: *m\n", "safely"),
        ("? gateway\n: x: 1\n", "safely"),
        ("gateway: 3\n", "safely"),
        ("gateway: {tools_exposure: {x: 1}}\n", "safely"),
        ("m: &m a\ngateway:\n  tools_exposure:\n  - *m\n  # kept\n  x: 1\n", "safely"),
        ("gateway:\n  tools_exposure:\n  -\n  # kept\n  x: 1\n", "safely"),
        ("- a\n", "not a mapping"),
        ("a: [\n", r"^not valid YAML: [^\n]*\(at line 2, column 1\); correct it first$"),
        ("a: 1\ngateway: {}\ngateway: {}\n", r"^not valid YAML: a key is there twice \(at line 3, column 1\);"),
        ("a: 1\n---\nb: 1\n", r"^not valid YAML: [^\n]*\(at line 2, column 1\);"),
    ],
)
def test_what_cannot_be_changed_safely_is_refused(text, said):
    with pytest.raises(YamlEditError, match=said):
        with_values(text, {MODE: "hybrid"})


names = st.sampled_from(["gateway", "plugins", "hybrid", "a b", "x.y", "yes", "3", "#", "ü"])
values = st.integers() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5)
paths = st.lists(names, min_size=2, max_size=3).map(tuple)


@given(first=st.dictionaries(paths, values, max_size=4), second=st.dictionaries(paths, values, max_size=4))
def test_values_are_all_there_and_every_comment_or_the_text_is_refused(first, second):
    try:
        text = with_values("# top\n", first).replace("\n", " # kept\n")
        changed = with_values(text, second)
    except YamlEditError:
        return
    assert changed.count("# kept") == text.count("# kept")
    for path, value in second.items():
        tree = yaml.safe_load(changed)
        for name in path:
            tree = tree[name]
        assert tree == value or isinstance(tree, dict)
