from __future__ import annotations

import pytest
import yaml

from pml_core.cli.yaml_edit import YamlEditError, with_values

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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gateway: {hybrid: {max_underlying_tools: 3}}\n", "safely"),
        ("gateway: &g\n  x: 1\nother: *g\n", "safely"),
        ("- a\n", "not a mapping"),
        ("a: [\n", "not valid YAML"),
    ],
)
def test_what_cannot_be_changed_safely_is_refused(text, said):
    with pytest.raises(YamlEditError, match=said):
        with_values(text, {MOST: 20})
