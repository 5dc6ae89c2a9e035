"""Tools that stand in a text."""

from __future__ import annotations

import pytest

from pml_kit.mcp.named_tools import named_in
from pml_testing.fakes import entry

ENTRIES = [entry("fs:read"), entry("fs:read-all"), entry("my-db:query"), entry("pml:search_tools")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("await tools.fs.read({})", ["fs:read"]),
        ("tools['fs:read-all']()", ["fs:read", "fs:read-all"]),
        ("tools.fs.read_all()", ["fs:read-all"]),
        ("tools.my_db.query(); // fs", ["my-db:query"]),
        ("const t = tools.fs; t.reader()", []),
        ("offset.read()", []),
        ("tools.pml.search_tools()", []),
        ("", []),
    ],
)
def test_server_and_name_have_to_stand_there(text, found):
    assert [one.id for one in named_in(text, ENTRIES)] == found
