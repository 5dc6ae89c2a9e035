from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_hookspecs import CatalogEntry, InvalidArguments, Match, Offer, RawObject, ServerStatus, Session, ToolId
from pml_kit.offers import TOOL_NOTES, ToolNote
from pml_search_tools.catalog_views import MOST_DESCRIBED, MOST_VIEWS, CatalogViews
from pml_search_tools.search_tools import SearchTools
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
    ServerStatus(name="lazy", state="idle", tools=3),
    ServerStatus(name="late", state="starting"),
    ServerStatus(name="mail", state="down", reason="It crashed; run pml plugins doctor."),
]


async def ask(catalog: Any, query: str, **arguments: Any) -> RawObject:
    services: Any = FakeServices(catalog=catalog)
    return await SearchTools(services)({"query": query, **arguments}, FakeRun())


async def search(query: str, *, tools: Any = TOOLS, servers: Any = (), **arguments: Any) -> RawObject:
    return await ask(FakeCatalog(tools, servers), query, **arguments)


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


async def test_no_list_is_filled_up_with_what_does_not_fit_but_a_server_that_is_named_shows_what_it_has() -> None:
    assert await names("zzzz") == []
    assert (await search("read mail in outlook")).keys() == {"tools", "total_tools", "hint"}
    hint = (await search("read mail in outlook"))["hint"]
    assert hint.startswith("No tool fits. Near it, though they may do something else: drive__read_file, ")
    assert await names("read mail in outlook", server="filesystem") == ["filesystem__read_file"]


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
    assert "unavailable" not in await search("read", servers=SERVERS[:3])


@pytest.mark.parametrize("state", ["idle", "starting"])
async def test_a_server_that_the_next_call_starts_or_waits_for_is_missing_only_while_its_tools_are_unknown(
    state: Any,
) -> None:
    assert "unavailable" not in await search("read", servers=[ServerStatus(name="lazy", state=state, tools=1)])
    answer = await search("read", servers=[ServerStatus(name="lazy", state=state)])
    assert answer["unavailable"] == [{"server": "lazy", "reason": state}]


async def test_nothing_found_comes_with_a_hint() -> None:
    answer = await search("zebra")
    assert answer == {"tools": [], "total_tools": 3, "hint": "No tool fits. Use other or fewer words."}
    hint = (await search("zebra", server="mail", servers=SERVERS))["hint"]
    assert "leaving out 'server'" in hint
    assert "unavailable" in hint


@pytest.mark.parametrize("query", ["", "   \n"])
async def test_an_empty_query_is_refused_with_what_to_do(query: str) -> None:
    with pytest.raises(InvalidArguments, match="say what the tool should do"):
        await search(query)


@pytest.mark.parametrize(
    ("server", "message"),
    [("filesytem", "did you mean 'filesystem'"), ("zz", "drive, filesystem, late, lazy, mail"), ("pml", "no server")],
)
async def test_an_unknown_server_is_refused_with_the_nearest(server: str, message: str) -> None:
    with pytest.raises(InvalidArguments, match=message):
        await search("read", server=server, servers=SERVERS)


async def test_an_empty_catalog_finds_nothing() -> None:
    assert (await search("read", tools=[]))["tools"] == []


READING, ALSO_WRITING, SILENT = (
    entry("a:count_rows", "count rows", annotations={"readOnlyHint": True}),
    entry("a:count_and_clear", "count rows", annotations={"readOnlyHint": False}),
    entry("b:count_rows", "count rows"),
)


async def test_only_tools_that_say_that_they_change_nothing_are_found_on_request() -> None:
    odd = [entry(f"odd:{n}", "count rows", annotations=value) for n, value in enumerate(([], "x", {"readOnlyHint": 1}))]
    tools = [READING, ALSO_WRITING, SILENT, *odd]
    answer = await search("count rows", tools=tools, effects="read_only")
    assert [tool["name"] for tool in answer["tools"]] == ["a__count_rows"]
    assert answer["total_tools"] == 1
    assert len(await names("count rows", tools=tools)) == 6


async def test_a_filter_holds_for_tools_asked_for_by_name_and_for_the_gateways_own() -> None:
    own = entry("pml:count_runs", "count runs", annotations={"readOnlyHint": True})
    tools = [READING, ALSO_WRITING, SILENT, own, entry("pml:count_down", "count")]
    assert await names("count_rows", tools=tools, effects="read_only") == ["a__count_rows"]
    assert await names("count_and_clear", tools=tools, effects="read_only") == []
    assert await names("count", tools=tools, effects="read_only") == ["a__count_rows", "count_runs"]
    assert await names("count", tools=tools, server="b") == ["b__count_rows"]


async def test_filters_hold_together_and_the_hint_names_both() -> None:
    tools = [READING, ALSO_WRITING, SILENT]
    assert await names("count rows", tools=tools, server="a", effects="read_only") == ["a__count_rows"]
    answer = await search("count rows", tools=tools, server="b", effects="read_only")
    assert answer == {
        "tools": [],
        "total_tools": 0,
        "hint": "No tool fits. Use other or fewer words, or search all tools by leaving out 'server' ('b') and "
        "'effects' ('read_only').",
    }


async def test_a_tool_that_a_filter_drops_leaves_no_trace() -> None:
    catalog = FakeCatalog(TOOLS)
    catalog.denied = {"filesystem:read_file"}
    services: Any = FakeServices(catalog=catalog)
    for query in ("read a file", "filesystem:read_file", "read_file"):
        answer = await SearchTools(services)({"query": query}, FakeRun())
        assert "filesystem__read_file" not in [tool["name"] for tool in answer["tools"]]
        assert answer["total_tools"] == 2


async def test_a_server_of_which_everything_is_hidden_is_hidden_too() -> None:
    catalog = FakeCatalog([*TOOLS, entry("mail:send", "Send a mail")], SERVERS)
    assert [down["server"] for down in (await ask(catalog, "read"))["unavailable"]] == ["late", "mail"]
    catalog.denied = {"mail:send", "drive:read_file"}
    assert [down["server"] for down in (await ask(catalog, "read"))["unavailable"]] == ["late"]
    for server in ("mail", "drive"):
        with pytest.raises(InvalidArguments, match="use one of: filesystem, late, lazy"):
            await ask(catalog, "read", server=server)


async def test_a_hidden_tool_of_the_same_name_is_in_nobodys_way() -> None:
    catalog = FakeCatalog([entry("a:b__c"), entry("a__b:c"), entry("other:a__b:c")])
    for denied in ({"a__b:c", "other:a__b:c"}, {"a:b__c", "other:a__b:c"}, {"a:b__c", "a__b:c"}):
        catalog.denied = denied
        found = (await ask(catalog, "a__b:c"))["tools"]
        alone = FakeCatalog([e for e in catalog if e.id not in denied])
        assert found == (await ask(alone, "a__b:c"))["tools"]


WORDS = ("read", "write", "file", "mail", "send", "list", "rows")
HINTS = st.sampled_from([None, {"readOnlyHint": True}, {"readOnlyHint": False}, {"destructiveHint": True}])
SOME_TOOLS = st.lists(
    st.builds(
        lambda server, words, text, hints: entry(f"{server}:{'_'.join(words)}", " ".join(text), annotations=hints),
        st.sampled_from(["drive", "filesystem", "mail", "pml"]),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
        st.lists(st.sampled_from(WORDS), max_size=6),
        HINTS,
    ),
    max_size=12,
    unique_by=lambda e: e.id,
)
ARGUMENTS = st.fixed_dictionaries(
    {"query": st.lists(st.sampled_from((*WORDS, "read_file", "mail:send", "mail__send")), min_size=1, max_size=3)},
    optional={
        "limit": st.integers(1, 5),
        "detail": st.sampled_from(["brief", "full"]),
        "server": st.sampled_from(["drive", "filesystem", "mail", "late"]),
        "effects": st.just("read_only"),
    },
)


async def said(catalog: Any, arguments: dict[str, Any]) -> bytes:
    """The bytes of the answer, or of what is wrong."""
    try:
        return (await ask(catalog, **{**arguments, "query": " ".join(arguments["query"])})).raw
    except InvalidArguments as exc:
        return str(exc).encode()


@given(tools=SOME_TOOLS, denied=st.sets(st.integers(0, 11)), arguments=ARGUMENTS)
async def test_an_answer_is_the_same_to_the_byte_whether_hidden_tools_exist_or_not(
    *, tools: list[CatalogEntry], denied: set[int], arguments: dict[str, Any]
) -> None:
    filtered = FakeCatalog(tools, SERVERS)
    filtered.denied = {e.id for at, e in enumerate(tools) if at in denied}
    left = [e for e in tools if e.id not in filtered.denied]
    gone = {e.server for e in tools} - {e.server for e in left}
    assert await said(filtered, arguments) == await said(
        FakeCatalog(left, [s for s in SERVERS if s.name not in gone]), arguments
    )


class Changing(FakeCatalog):
    """Becomes another catalog while it is searched."""

    def __init__(self, before: Sequence[CatalogEntry], after: Sequence[CatalogEntry]) -> None:
        super().__init__(before)
        self._after = {e.id: e for e in after}

    def exposed_name(self, id: ToolId) -> str:
        return super().exposed_name(self._entries[id].id)

    async def search(self, query: str, **how: Any) -> Sequence[Match]:
        found = await super().search(query, **how)
        self._entries = self._after
        return found


async def test_a_catalog_that_changes_during_a_search_gives_what_is_left() -> None:
    answer = await ask(Changing([READ, SILENT], [READ, ALSO_WRITING]), "rows file")
    assert [tool["name"] for tool in answer["tools"]] == ["filesystem__read_file"]
    assert answer["total_tools"] == 2


async def test_what_is_kept_follows_the_catalog() -> None:
    catalog = FakeCatalog(TOOLS)
    services: Any = FakeServices(catalog=catalog)
    searching = SearchTools(services)
    assert (await searching({"query": "read_file", "limit": 1}, FakeRun()))["total_tools"] == 3
    changed = entry("drive:read_file", "Now it writes.")
    catalog._entries = {e.id: e for e in (changed, entry("pml:write_report", "Write"))}
    answer = await searching({"query": "write"}, FakeRun())
    assert [tool["name"] for tool in answer["tools"]] == ["write_report"]
    assert answer["total_tools"] == 1
    (tool,) = (await searching({"query": "read_file"}, FakeRun()))["tools"]
    assert tool["description"] == "Now it writes."


class Steady(FakeCatalog):
    """Gives the same object for the same view, as the contract has it."""

    def __init__(self, entries: Sequence[CatalogEntry]) -> None:
        super().__init__(entries)
        self.seen: dict[str, Any] = {}

    def visible(self, session: Session) -> Any:
        return self.seen.setdefault(session.key, super().visible(session))


def test_one_view_is_worked_out_once_and_no_more_are_kept_than_the_bound() -> None:
    known = CatalogViews(Steady(TOOLS))
    first = known.view(Session(key="0"))
    assert known.view(Session(key="0")) is first
    for n in range(1, MOST_VIEWS + 1):
        known.view(Session(key=str(n)))
        assert known.view(Session(key=str(n))) is not first
    assert len(known._views) == MOST_VIEWS
    assert known.view(Session(key="0")) is not first


def test_another_revision_is_worked_out_anew_even_for_the_same_ids() -> None:
    catalog = Steady([READING, ALSO_WRITING])
    known, session = CatalogViews(catalog), Session(key="0")
    assert known.view(session).total(None, reading=True) == 1
    catalog._entries = {e.id: e for e in (READING, entry(ALSO_WRITING.id, annotations={"readOnlyHint": True}))}
    assert known.view(session).total(None, reading=True) == 2


def test_no_more_short_forms_are_kept_than_the_bound() -> None:
    known = CatalogViews(FakeCatalog())
    for n in range(MOST_DESCRIBED + 5):
        assert known.described(entry(f"s:t{n}", f"Does {n}."))[0] == f"Does {n}."
    assert len(known._described) == MOST_DESCRIBED
    assert known.described(entry("s:t0", "Does 0."))[0] == "Does 0."


async def test_a_tool_with_a_description_of_any_length_is_shown_in_few_words() -> None:
    huge = entry("s:huge", "Reads " + "x" * 100_000)
    [tool] = (await search("reads", tools=[huge]))["tools"]
    assert len(tool["description"]) <= 160


class Notes:
    """Knows something of one tool."""

    def of(self, entry: CatalogEntry, session: Session) -> ToolNote | None:
        assert session.principal == "local"
        note = ToolNote(returns="{text: string}", arguments={"path": "<absolute path>"}, advice="'path', not 'file'")
        return note if entry.id == READ.id else None


async def test_what_calls_have_shown_stands_beside_what_the_tool_says() -> None:
    services: Any = FakeServices(catalog=FakeCatalog([READ, TOOLS[1]]), offers=[Offer(TOOL_NOTES, Notes())])
    search = SearchTools(services)
    brief = (await search({"query": "read file write"}, FakeRun()))["tools"]
    seen = {tool["name"]: tool.get("seen") for tool in brief}
    shown = {"advice": "'path', not 'file'", "returns": "{text: string}"}
    assert seen == {"filesystem__read_file": shown, "filesystem__write_file": None}
    (full,) = (await search({"query": "filesystem:read_file", "limit": 1, "detail": "full"}, FakeRun()))["tools"]
    assert full["seen"] == {**shown, "arguments": {"path": "<absolute path>"}}


async def test_tools_are_shown_as_they_are_where_whoever_knows_more_fails() -> None:
    class Broken:
        def of(self, entry: CatalogEntry, session: Session) -> ToolNote | None:
            raise RuntimeError("no")

    services: Any = FakeServices(catalog=FakeCatalog([READ]), offers=[Offer(TOOL_NOTES, Broken())])
    (tool,) = (await SearchTools(services)({"query": "read file"}, FakeRun()))["tools"]
    assert "seen" not in tool
