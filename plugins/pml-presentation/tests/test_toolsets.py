"""What is in a toolset."""

from __future__ import annotations

import pytest

from pml_hookspecs import Session
from pml_presentation.settings import Settings, Tool, Toolset
from pml_presentation.toolsets import ToolsetFilter
from pml_testing.fakes import entry


def kept(id, toolset, tools=None, **who):
    settings = Settings(tools=tools or {}, toolsets={"t": toolset}, keys={"ada": ("t",)})
    return ToolsetFilter(settings)(entry(id), Session(key="k", **{"principal": "ada", **who}))


@pytest.mark.parametrize(
    ("toolset", "inside", "outside"),
    [
        (Toolset(servers=("s",)), ["s:a", "s:@resource/x", "s:b:c"], ["t:a", "S:a", "ss:a"]),
        (Toolset(tools=("s:list_*",)), ["s:list_a"], ["s:a", "s:@resource/list_", "s:@list_a", "t:list_a", "s:List_a"]),
        (Toolset(tools=("s:*",)), ["s:a", "s:@prompt/x"], ["t:s:a"]),
        (Toolset(tools=("*:list",)), ["s:list", "t:list"], ["s:x:list", "s:lists", "s:@prompt/list"]),
        (Toolset(tools=("s*:read",)), ["s1:read"], ["s1:evil:read", "t:read"]),
        (Toolset(servers=("s",), without=("*:drop_*",)), ["s:a"], ["s:drop_a"]),
        (Toolset(servers=("s",), without=("s:@resource/*",)), ["s:a", "s:@prompt/x"], ["s:@resource/x"]),
    ],
)
def test_what_is_in_it(toolset, inside, outside):
    assert [id for id in inside if not kept(id, toolset)] == []
    assert [id for id in outside if kept(id, toolset)] == []


def test_tags_are_the_operators():
    tools = {"s:a": Tool(tags=("reading",))}
    assert kept("s:a", Toolset(tags=("reading",)), tools)
    assert not kept("s:b", Toolset(tags=("reading",)), tools)


def test_the_gateways_own_tools_are_in_every_toolset():
    assert kept("pml:call_tool", Toolset(servers=("s",)))


def test_a_key_is_meant_by_its_id_by_whose_it_is_and_by_patterns_in_this_order():
    sets = {name: Toolset(tools=(f"s:{name}",)) for name in ("id", "whose", "first", "second")}
    keys = {"first*": ("first",), "*": ("second",), "ada": ("whose",), "k1": ("id",)}
    keeps = ToolsetFilter(Settings(toolsets=sets, keys=keys))

    def has(**who):
        session = Session(key="k", **who)
        return [name for name in sets if keeps(entry(f"s:{name}"), session)]

    assert has(principal="ada", access_key="k1") == ["id"]
    assert has(principal="ada", access_key="k2") == ["whose"]
    assert has(principal="first-of-all") == ["first"]
    assert has() == ["second"]


def test_endpoint_and_key_both_have_to_have_it():
    sets = {"a": Toolset(tools=("s:a", "s:both")), "b": Toolset(tools=("s:b", "s:both"))}
    keeps = ToolsetFilter(Settings(toolsets=sets, endpoints={"work": ("a",), "none": ()}, keys={"ada": ("b",)}))
    ids = ["s:a", "s:b", "s:both", "s:other"]

    def has(**who):
        return [id for id in ids if keeps(entry(id), Session(key="k", **who))]

    assert has() == ids
    assert has(endpoint="work") == ["s:a", "s:both"]
    assert has(principal="ada") == ["s:b", "s:both"]
    assert has(principal="ada", endpoint="work") == ["s:both"]
    assert has(endpoint="none") == []
