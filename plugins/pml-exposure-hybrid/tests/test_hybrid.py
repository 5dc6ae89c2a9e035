from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_core.plugins.nulls import MemoryStore
from pml_exposure_hybrid import Hybrid, Settings
from pml_hookspecs import ExecutionId, ExecutionRecord, ServerStatus, Session, Status
from pml_testing.exposure_mode import ExposureModeContract
from pml_testing.fakes import FakeCatalog, FakeServices, entry, some_entries

pytestmark = pytest.mark.anyio
META = ("pml:execute_it", "pml:search_it")
READ = ("s00:read_thing_000", "s01:read_thing_000")
SILENT = Session(key="silent")
ASKING = Session(key="asking", intent="read thing")
SETTINGS = {
    "defaults": Settings(),
    "first": Settings(apply_semantic_filter=False),
    "lists": Settings(whitelisted_tools=["s00__read_thing_000", "s00:write_thing_001"], blacklisted_tools=["s00:w*"]),
}


@pytest.fixture
def catalog() -> FakeCatalog:
    return FakeCatalog(some_entries(2, 5))


@pytest.fixture(params=SETTINGS)
def some_settings(request: pytest.FixtureRequest) -> Settings:
    return SETTINGS[request.param]


class TestContract(ExposureModeContract):
    @pytest.fixture
    def mode_type(self) -> Any:
        return Hybrid

    @pytest.fixture
    def settings(self, some_settings: Settings) -> Any:
        return some_settings


async def shown(catalog: FakeCatalog, session: Session = SILENT, **settings: Any) -> tuple[str, ...]:
    return (await Hybrid(Settings(**settings)).select(catalog, session)).tools


async def ran(store: MemoryStore, principal: str, *tools: str) -> None:
    for number, tool in enumerate(tools):
        record = ExecutionRecord(
            id=ExecutionId(f"{principal}-{number}"),
            kind="tool",
            target=tool,
            principal=principal,
            status=Status.OK,
            started_at=datetime.now(UTC),
            duration_ms=1,
        )
        await store.executions.put(record)


async def test_without_an_intent_what_the_caller_used_most_can_be_listed(catalog: FakeCatalog) -> None:
    services = FakeServices("hybrid", store=MemoryStore())
    one, other, third = "s00:read_thing_000", "s01:read_thing_000", "s00:write_thing_001"
    await ran(services.store, "ada", other, one, other, "pml:search_it", "gone:tool")
    await ran(services.store, "bob", third, third, third)
    ada = Session(key="ada", principal="ada")
    mode = Hybrid(Settings(fallback="most_used", expose_meta_tools=False), services)
    assert (await mode.select(catalog, ada)).tools == (other, one)
    assert (await mode.select(catalog, Session(key="bob", principal="bob"))).tools == (third,)
    capped = Hybrid(Settings(fallback="most_used", expose_meta_tools=False, max_underlying_tools=1), services)
    assert (await capped.select(catalog, ada)).tools == (other,)
    # What is used since changes no list, and an intent comes first.
    await ran(services.store, "ada", one, one, one, one, one)
    assert (await mode.select(catalog, ada)).tools == (other, one)
    asking = await mode.select(catalog, Session(key="x", principal="ada", intent="write thing 001"))
    assert third in asking.tools


async def test_a_history_that_cannot_be_read_lists_nothing_more_and_is_said_once(catalog: FakeCatalog) -> None:
    services = FakeServices("hybrid", store=None)
    mode = Hybrid(Settings(fallback="most_used", expose_meta_tools=False), services)
    for _ in range(2):
        assert (await mode.select(catalog, SILENT)).tools == ()
    assert [event for _, event, _ in services.log.lines] == ["which tools are used most cannot be read"]


def test_the_documented_defaults_hold() -> None:
    assert Settings() == Settings(
        expose_meta_tools=True,
        expose_underlying_tools=True,
        apply_semantic_filter=True,
        max_underlying_tools=50,
        semantic_threshold=0.6,
        whitelisted_tools=[],
        blacklisted_tools=[],
    )


@pytest.mark.parametrize(
    ("meta", "underlying", "expected"),
    [(True, True, (*META, *READ)), (True, False, META), (False, True, READ), (False, False, ())],
)
async def test_meta_tools_come_before_underlying_ones_where_both_are_wanted(
    *, catalog: FakeCatalog, meta: bool, underlying: bool, expected: tuple[str, ...]
) -> None:
    both = {"expose_meta_tools": meta, "expose_underlying_tools": underlying}
    assert await shown(catalog, ASKING, **both) == expected


@pytest.mark.parametrize(
    ("session", "filtered", "expected"),
    [
        (SILENT, True, ("s01:copy_thing_004",)),
        (ASKING, True, ("s01:copy_thing_004", *READ)),
        (SILENT, False, ("s01:copy_thing_004", "s00:copy_thing_004", "s00:delete_thing_003")),
        (ASKING, False, ("s01:copy_thing_004", "s00:copy_thing_004", "s00:delete_thing_003")),
    ],
)
async def test_the_filter_searches_only_with_an_intent_and_otherwise_the_first_tools_are_taken(
    *, catalog: FakeCatalog, session: Session, filtered: bool, expected: tuple[str, ...]
) -> None:
    settings = {
        "apply_semantic_filter": filtered,
        "max_underlying_tools": 2,
        "whitelisted_tools": ["s01:copy_thing_004"],
    }
    assert await shown(catalog, session, **settings) == (*META, *expected)


async def test_intents_are_searched_one_by_one_and_each_has_its_turn_before_the_cap() -> None:
    names = ["files:read_file", "files:write_file", "git:git_log", "git:git_show", "forge:list_issue"]
    catalog = FakeCatalog([entry(name) for name in names])
    intents = ["file", "git", "issue"]
    found = await shown(catalog, intents=intents, semantic_threshold=0.3)
    assert found == ("files:read_file", "git:git_log", "forge:list_issue", "files:write_file", "git:git_show")
    assert await shown(catalog, intents=intents, semantic_threshold=0.3, max_underlying_tools=3) == found[:3]
    asking = Session(key="a", intent="issue")
    assert await shown(catalog, asking, intents=intents, semantic_threshold=0.3) == ("forge:list_issue",)
    assert await shown(catalog) == ()


async def test_a_tool_that_is_not_listed_can_still_be_named_in_a_call(catalog: FakeCatalog) -> None:
    called = catalog.resolve("s00__delete_thing_003")
    assert called is not None
    assert called.id not in await shown(catalog, ASKING)


@pytest.mark.parametrize("cap", [0, 1, 50])
@pytest.mark.parametrize("filtered", [True, False])
async def test_no_more_than_the_cap_are_searched_or_taken(*, cap: int, filtered: bool) -> None:
    catalog = FakeCatalog(some_entries(4, 20))
    session = Session(key="k", intent="thing")
    settings = {"apply_semantic_filter": filtered, "max_underlying_tools": cap}
    assert len(await shown(catalog, session, **settings)) == 2 + cap


async def test_a_relevance_exactly_at_the_threshold_is_enough() -> None:
    catalog = FakeCatalog([entry("a:one_two_three"), entry("a:one_two"), entry("a:one")])
    session = Session(key="k", intent="one two three")
    assert await shown(catalog, session, semantic_threshold=2 / 3) == ("a:one_two_three", "a:one_two")


async def test_the_whitelist_is_listed_without_an_intent_in_its_own_order(catalog: FakeCatalog) -> None:
    names = ["s01:copy_thing_004", "s00__list_thing_002", "unlisted"]
    expected = (*META, "s01:copy_thing_004", "s00:list_thing_002", "pml:unlisted")
    assert await shown(catalog, whitelisted_tools=names) == expected


@pytest.mark.parametrize(
    "name", ["s00:read_thing_000", "s00__read_thing_000", "s00:*", "s00__*", "*:read_*", "s0[0]:read_thing_???"]
)
async def test_the_blacklist_beats_the_whitelist_and_the_search(catalog: FakeCatalog, name: str) -> None:
    tools = await shown(catalog, ASKING, whitelisted_tools=["s00:read_thing_000"], blacklisted_tools=[name])
    assert "s00:read_thing_000" not in tools
    assert tools[:2] == META


async def test_a_tool_found_twice_keeps_its_first_place_and_reason(catalog: FakeCatalog) -> None:
    names = ["s01:read_thing_000", "s01__read_thing_000", "search_it"]
    selection = await Hybrid(Settings(whitelisted_tools=names)).select(catalog, ASKING)
    assert selection.tools == (*META, "s01:read_thing_000", "s00:read_thing_000")
    assert selection.why["s01:read_thing_000"] == "whitelisted"
    assert selection.why["pml:search_it"] == "meta-tool"


TOOLS = st.lists(st.sampled_from([e.id for e in some_entries(2, 5)]), max_size=6)


@given(
    white=TOOLS, black=TOOLS, cap=st.integers(0, 12), filtered=st.booleans(), intent=st.sampled_from(["", "read", "s"])
)
async def test_the_steps_are_whitelist_then_others_then_blacklist_then_each_once(
    *, white: list[str], black: list[str], cap: int, filtered: bool, intent: str
) -> None:
    catalog = FakeCatalog(some_entries(2, 5))
    theirs = [e.id for e in catalog if not e.own]
    hits = [hit.id for hit in await catalog.search(intent, limit=cap, min_score=0.6)]
    expected = [*white, *(hits if filtered else theirs[:cap])]
    expected = list(dict.fromkeys(tool for tool in expected if tool not in black))
    lists = {"whitelisted_tools": white, "blacklisted_tools": black, "expose_meta_tools": False}
    settings = {"max_underlying_tools": cap, "apply_semantic_filter": filtered, **lists}
    assert list(await shown(catalog, Session(key="k", intent=intent), **settings)) == expected


@pytest.mark.parametrize(
    ("settings", "shared"),
    [
        (Settings(), False),
        (Settings(apply_semantic_filter=False), True),
        (Settings(apply_semantic_filter=False, max_underlying_tools=10), True),
        (Settings(apply_semantic_filter=False, max_underlying_tools=9), False),
        (Settings(expose_underlying_tools=False), True),
        (Settings(max_underlying_tools=0), True),
    ],
)
async def test_the_answer_is_shared_when_neither_an_intent_nor_hidden_tools_can_change_it(
    *, catalog: FakeCatalog, settings: Settings, shared: bool
) -> None:
    assert (await Hybrid(settings).select(catalog, SILENT)).shared is shared


@given(
    hidden=st.sets(st.sampled_from([e.id for e in some_entries(2, 5) if not e.own])),
    cap=st.integers(0, 12),
    filtered=st.booleans(),
    intent=st.sampled_from(["", "read", "thing"]),
)
async def test_tools_that_a_session_may_not_have_take_no_place_of_another(
    *, hidden: set[str], cap: int, filtered: bool, intent: str
) -> None:
    everything, session = some_entries(2, 5), Session(key="k", intent=intent)
    settings = {"max_underlying_tools": cap, "apply_semantic_filter": filtered}
    catalog = FakeCatalog(everything)
    catalog.denied = hidden
    without = FakeCatalog([e for e in everything if e.id not in hidden])
    listed = [tool for tool in await shown(catalog, session, **settings) if tool not in hidden]
    assert tuple(listed) == await shown(without, session, **settings)


async def test_a_whitelist_that_passes_the_cap_is_kept_and_reported_once(catalog: FakeCatalog) -> None:
    services = FakeServices()
    settings = Settings(whitelisted_tools=["s00:list_thing_002"], max_underlying_tools=2)
    mode = Hybrid(settings, services)
    await mode.select(catalog, SILENT)
    assert services.log.lines == []
    for _ in range(2):
        assert len((await mode.select(catalog, ASKING)).tools) == 2 + 3
    [(level, event, details)] = services.log.lines
    assert level == "warning"
    assert "max_underlying_tools" in event
    assert details == {"tools": 3, "max_underlying_tools": 2}


async def test_an_unknown_whitelisted_tool_is_skipped_and_reported_once_with_the_nearest(catalog: FakeCatalog) -> None:
    services = FakeServices()
    mode = Hybrid(Settings(whitelisted_tools=["s00:raed_thing_000", "s00__list_thing_002"]), services)
    for _ in range(2):
        assert (await mode.select(catalog, SILENT)).tools == (*META, "s00:list_thing_002")
    [(level, _event, details)] = services.log.lines
    assert level == "warning"
    assert details == {"tool": "s00:raed_thing_000", "nearest": "s00:read_thing_000", "server_problem": ""}


async def test_a_whitelisted_tool_of_a_starting_server_is_not_reported_and_of_a_failed_one_with_its_reason() -> None:
    services = FakeServices()
    mode = Hybrid(Settings(whitelisted_tools=["late__tool", "dead:tool"]), services)
    servers = [
        ServerStatus(name="late", state="starting"),
        ServerStatus(name="dead", state="down", reason="It crashed."),
    ]
    assert (await mode.select(FakeCatalog([], servers), SILENT)).tools == ()
    [(_level, _event, details)] = services.log.lines
    assert details == {"tool": "dead:tool", "nearest": "", "server_problem": "It crashed."}


async def test_a_list_without_any_tools_is_reported(catalog: FakeCatalog) -> None:
    services = FakeServices()
    await Hybrid(Settings(expose_meta_tools=False, expose_underlying_tools=False), services).select(catalog, SILENT)
    assert [level for level, _event, _details in services.log.lines] == ["warning"]


async def test_a_whitelist_may_have_patterns_in_the_order_of_the_list(catalog: FakeCatalog) -> None:
    names = ["s01:read_thing_000", "s00:*_000", "s00__write_*", "s01:read_thing_*", "no:*"]
    found = await shown(catalog, expose_meta_tools=False, whitelisted_tools=names, blacklisted_tools=["s00:write_*"])
    assert found == ("s01:read_thing_000", "s00:read_thing_000")
    written = await shown(catalog, expose_meta_tools=False, whitelisted_tools=["s00__write_*"])
    assert written == tuple(e.id for e in catalog if e.id.startswith("s00:write_"))
    assert written
