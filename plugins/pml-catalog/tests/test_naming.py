from __future__ import annotations

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pml_catalog.live import make_entry
from pml_catalog.naming import LONGEST, expose, plain_name
from pml_hookspecs import CatalogEntry

CLIENT_SAFE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
servers = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9.-]{0,5}(_[a-z]{0,2})?", fullmatch=True).filter(lambda s: s != "pml")
tools = (
    st.text(min_size=1, max_size=8)
    | st.text("ab_", min_size=1, max_size=5)
    | st.text("ab:_ é", min_size=50, max_size=90)
    | st.sampled_from(["x", "x!", "x?", "_x", "__x", "a:b", "a__b"])
)


def entry(server: str, tool: str) -> CatalogEntry:
    return make_entry(server, {"name": tool})


@given(st.sets(st.tuples(servers, tools), max_size=30))
def test_names_are_unique_and_fit_the_strictest_clients(pairs):
    entries = sorted((entry(*p) for p in pairs), key=lambda e: (e.server, e.name))
    names, clashes = expose(entries)
    assert set(names) == {e.id for e in entries}
    assert len(set(names.values())) == len(names)
    assert all(CLIENT_SAFE.fullmatch(name) for name in names.values()), names
    assert expose(entries) == (names, clashes)
    same = {n: c for n, c in Counter(plain_name(e) for e in entries).items() if c > 1}
    assert len(clashes) == sum(c - 1 for c in same.values())


def test_server_and_tool_are_joined_by_two_underscores():
    assert plain_name(entry("fs", "read_file")) == "fs__read_file"


def test_the_gateways_own_tools_keep_their_names():
    assert plain_name(entry("pml", "search_tools")) == "search_tools"


def test_a_name_of_exactly_the_limit_is_kept_and_one_more_is_shortened():
    fits = "x" * (LONGEST - len("fs__"))
    assert plain_name(entry("fs", fits)) == f"fs__{fits}"
    shortened = plain_name(entry("fs", fits + "y"))
    assert len(shortened) == LONGEST
    assert re.fullmatch(r"fs__x+_[0-9a-f]{8}", shortened)
    assert shortened != plain_name(entry("fs", fits + "z"))


def test_a_forbidden_character_is_replaced_and_the_ending_tells_tools_apart():
    one, other = plain_name(entry("fs", "read file")), plain_name(entry("fs", "read/file"))
    assert one.startswith("fs__read_file_")
    assert one != other


def test_a_clash_is_named_and_the_later_entry_gets_another_name():
    entries = [entry("a", "_x"), entry("a_", "x")]
    names, clashes = expose(entries)
    assert clashes == [("a:_x", "a_:x")]
    assert names["a:_x"] == "a___x"
    assert re.fullmatch(r"a___x_[0-9a-f]{8}", names["a_:x"])


def test_a_server_cannot_take_the_name_that_another_servers_tool_was_given():
    renamed = expose([entry("a", "_x"), entry("a_", "x")])[0]["a_:x"]
    aimed = renamed.removeprefix("a__")
    names, clashes = expose([entry("a", "_x"), entry("a", aimed), entry("a_", "x")])
    assert len(set(names.values())) == 3
    assert len(clashes) == 1


def test_half_a_surrogate_pair_in_a_tools_name_does_no_harm():
    names, _ = expose([entry("fs", "\ud800"), entry("fs", "\udfff"), entry("fs", "fine")])
    assert len(set(names.values())) == 3
    assert all(CLIENT_SAFE.fullmatch(name) for name in names.values())
