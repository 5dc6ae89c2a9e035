from __future__ import annotations

from typing import Any

import pytest

from pml_hookspecs import InvalidArguments, ServerStatus
from pml_search_tools.searching import SearchTools
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, entry

pytestmark = pytest.mark.anyio
READ = entry(
    "filesystem:read_file",
    "Read a file. Fails for folders.",
    input_schema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    outputSchema={"type": "object"},
    annotations={"readOnlyHint": True},
)
TOOLS = [
    READ,
    entry("filesystem:write_file", "Write a file"),
    entry("drive:read_file", "Read from the drive"),
    entry("pml:search_tools", "Find tools", meta=True),
    entry("pml:list_recent_executions", "List recent task executions across agents."),
]
SERVERS = [
    ServerStatus(name="drive", state="up"),
    ServerStatus(name="filesystem", state="up"),
    ServerStatus(name="late", state="starting"),
    ServerStatus(name="mail", state="down", reason="It crashed; run pml plugins doctor."),
]


async def search(query: str, *, tools: Any = TOOLS, servers: Any = (), **arguments: Any) -> dict[str, Any]:
    services: Any = FakeServices(catalog=FakeCatalog(tools, servers))
    return await SearchTools(services)({"query": query, **arguments}, FakeRun())


async def names(query: str, **arguments: Any) -> list[str]:
    return [tool["name"] for tool in (await search(query, **arguments))["tools"]]


async def test_a_brief_answer_is_enough_to_call_the_tool() -> None:
    answer = await search("read file", limit=1)
    assert answer == {
        "tools": [
            {"name": "drive__read_file", "score": 1.0, "description": "Read from the drive", "parameters": ""},
        ],
        "total_tools": 3,
    }
    assert (await search("read a file", limit=1))["tools"] == [
        {"name": "filesystem__read_file", "score": 1.0, "description": "Read a file.", "parameters": "path: string"}
    ]


async def test_a_full_answer_has_the_schemas_as_the_server_sent_them() -> None:
    [tool] = (await search("read a file", limit=1, detail="full"))["tools"]
    assert tool == {
        "name": "filesystem__read_file",
        "score": 1.0,
        "description": "Read a file. Fails for folders.",
        "inputSchema": READ.definition["inputSchema"],
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    }
    [plain] = (await search("write", limit=1, detail="full"))["tools"]
    assert plain.keys() == {"name", "score", "description", "inputSchema"}


async def test_the_best_come_first_and_no_more_than_the_limit() -> None:
    many = [entry(f"s:ping_{n:02}", "ping") for n in range(60)]
    assert len(await names("ping", tools=many)) == 8
    assert await names("ping", tools=many, limit=50) == [f"s__ping_{n:02}" for n in range(50)]
    assert await names("write file") == ["filesystem__write_file", "drive__read_file", "filesystem__read_file"]


@pytest.mark.parametrize("query", ["filesystem:write_file", "filesystem__write_file", "write_file", "  write_file\n"])
async def test_a_tool_asked_for_by_name_comes_first(query: str) -> None:
    first = (await search(query))["tools"][0]
    assert (first["name"], first["score"]) == ("filesystem__write_file", 1.0)


async def test_a_name_that_two_servers_have_finds_both() -> None:
    assert await names("read_file") == ["drive__read_file", "filesystem__read_file"]


async def test_only_tools_of_the_server_asked_for_are_found() -> None:
    answer = await search("read", server="filesystem", servers=SERVERS)
    assert [tool["name"] for tool in answer["tools"]] == ["filesystem__read_file"]
    assert answer["total_tools"] == 2
    assert "unavailable" not in answer


async def test_unlisted_tools_of_the_gateway_are_found_and_listed_ones_are_not() -> None:
    assert await names("recent executions") == ["list_recent_executions"]
    assert await names("Recent execution") == ["list_recent_executions"]
    assert await names("list_recent_executions") == ["list_recent_executions"]
    assert await names("find tools") == []
    assert await names("search_tools") == []
    assert await names("recent weather") == []


async def test_a_common_word_does_not_put_a_tool_of_the_gateway_before_the_servers() -> None:
    tools = [*TOOLS, *(entry(f"s:list_{n}", "list") for n in range(3))]
    assert await names("list", tools=tools) == ["s__list_0", "s__list_1", "s__list_2", "list_recent_executions"]


async def test_servers_that_are_not_up_are_named_with_the_reason() -> None:
    answer = await search("read", servers=SERVERS)
    assert answer["unavailable"] == [
        {"server": "late", "reason": "starting"},
        {"server": "mail", "reason": "It crashed; run pml plugins doctor."},
    ]
    assert "unavailable" not in await search("read", servers=SERVERS[:2])


async def test_nothing_found_comes_with_a_hint() -> None:
    answer = await search("zebra")
    assert answer == {"tools": [], "total_tools": 3, "hint": "Nothing found. Use other or fewer words."}
    hint = (await search("zebra", server="mail", servers=SERVERS))["hint"]
    assert "leaving out 'server'" in hint
    assert "unavailable" in hint


@pytest.mark.parametrize("query", ["", "   \n"])
async def test_an_empty_query_is_refused_with_what_to_do(query: str) -> None:
    with pytest.raises(InvalidArguments, match="say what the tool should do"):
        await search(query)


@pytest.mark.parametrize(
    ("server", "message"),
    [("filesytem", "did you mean 'filesystem'"), ("zz", "drive, filesystem, late, mail"), ("pml", "no server")],
)
async def test_an_unknown_server_is_refused_with_the_nearest(server: str, message: str) -> None:
    with pytest.raises(InvalidArguments, match=message):
        await search("read", server=server, servers=SERVERS)


async def test_an_empty_catalog_finds_nothing() -> None:
    assert (await search("read", tools=[]))["tools"] == []


@pytest.mark.seed("EXP-19")
async def test_a_tool_that_a_filter_drops_leaves_no_trace() -> None:
    catalog = FakeCatalog(TOOLS)
    catalog.denied = {"filesystem:read_file"}
    services: Any = FakeServices(catalog=catalog)
    for query in ("read a file", "filesystem:read_file", "read_file"):
        answer = await SearchTools(services)({"query": query}, FakeRun())
        assert "filesystem__read_file" not in [tool["name"] for tool in answer["tools"]]
        assert answer["total_tools"] == 2
