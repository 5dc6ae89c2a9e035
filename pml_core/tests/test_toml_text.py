from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_core import toml_text

texts = st.text(max_size=20)
tables = st.fixed_dictionaries(
    {"command": texts, "args": st.lists(texts, max_size=3), "env": st.dictionaries(texts, texts, max_size=3)},
    optional={"timeout_s": st.floats(min_value=1e-9, max_value=1e12), "enabled": st.booleans(), "a b": texts},
)


@given(st.dictionaries(texts, tables, max_size=4))
def test_written_tables_are_read_back_equal(servers):
    assert tomllib.loads(toml_text.with_servers("", servers)).get("servers", {}) == servers


@given(st.dictionaries(texts, tables, max_size=3), st.dictionaries(texts, tables, max_size=3))
def test_replacing_and_adding_tables_changes_nothing_else(before, after):
    head = '# mine\n[gateway]\nstrict = true # yes\n\n[plugins."x.y"]\nlist = [\n  "a",\n]\n'
    text = toml_text.with_servers(f"{head}\n", before)
    changed = toml_text.with_servers(text, after)
    assert changed.startswith(head)
    assert tomllib.loads(changed) == {
        **tomllib.loads(head),
        **({"servers": {**before, **after}} if before or after else {}),
    }
    assert toml_text.with_servers(changed, after) == changed


@pytest.mark.parametrize(
    "text",
    [
        'servers = { git = { command = "mine" } }\n',
        '[servers]\ngit = { command = "mine" }\n',
        '[servers]\ngit.command = "mine"\n',
    ],
)
def test_a_table_written_in_a_way_that_cannot_be_replaced_is_refused(text):
    with pytest.raises(toml_text.TomlEditError, match="by hand"):
        toml_text.with_servers(text, {"git": {"command": "theirs"}})


def test_a_table_in_pieces_is_replaced_as_a_whole():
    text = "[servers.a.env]\nX = 1\n\n[other]\n[servers.a]\ny = 2\n# note\n"
    assert toml_text.with_servers(text, {"a": {"z": 3}}) == "[servers.a]\nz = 3\n\n[other]\n# note\n"
