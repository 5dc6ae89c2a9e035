from __future__ import annotations

import asyncio
import hashlib

import pytest

from pml_catalog.live import LiveCatalog, make_entry
from pml_hookspecs import Match, MetaTool, RawObject, ServerStatus, Session
from pml_testing.fakes import FakeLog

pytestmark = pytest.mark.anyio
ROOT = Session(key="root")


class Index:
    """Counts how often it is built."""

    def __init__(self) -> None:
        self.built: list[list[str]] = []
        self.gate: asyncio.Event | None = None

    async def build(self, entries, revision):
        if self.gate is not None:
            await self.gate.wait()
        self.built.append([e.id for e in entries])

    async def search(self, query, *, limit, min_score, among=None, session=None):
        self.among = among
        found = [id for id in self.built[-1] if query in id and (among is None or id in among)]
        return [Match(id, 1.0) for id in found][:limit]


def catalog(log=None, index=None, **tools: str) -> LiveCatalog:
    made = LiveCatalog(log or FakeLog(), index or Index())
    for server, names in tools.items():
        made.publish(server, [make_entry(server, {"name": n}) for n in names.split()])
    return made


async def own(arguments, run):
    return {}


def meta(name: str, **options) -> MetaTool:
    return MetaTool(definition={"name": name, "inputSchema": {"type": "object"}}, call=own, **options)


def test_an_entry_has_the_definition_as_it_came_its_size_and_a_digest_of_its_meaning():
    definition = {"name": "read", "description": "né", "x-unknown": [1, {"b": None}]}
    entry = make_entry("fs", definition)
    assert (entry.id, entry.server, entry.definition, entry.meta, entry.own) == (
        "fs:read",
        "fs",
        definition,
        False,
        False,
    )
    assert entry.tokens == len('{"name":"read","description":"né","x-unknown":[1,{"b":null}]}'.encode()) // 4
    assert (
        entry.digest == make_entry("other", {"x-unknown": [1, {"b": None}], "description": "né", "name": "read"}).digest
    )
    assert entry.digest != make_entry("fs", {**definition, "description": "ne"}).digest
    assert make_entry("fs", RawObject.of(definition)).digest == entry.digest


def test_entries_come_in_server_and_name_order():
    made = catalog(b="z a", a="y x")
    assert [e.id for e in made] == ["a:x", "a:y", "b:a", "b:z"]
    assert len(made) == 4


def test_a_tool_is_found_by_id_by_the_clients_spelling_and_by_an_alias():
    made = catalog(fs="read a:b")
    made.offer([meta("search_tools", aliases=("find",))])
    assert {made.resolve(n).id for n in ("fs:read", "fs__read")} == {"fs:read"}
    assert {made.resolve(n).id for n in ("search_tools", "pml:search_tools", "find")} == {"pml:search_tools"}
    assert made.resolve("fs:a:b").id == "fs:a:b"
    assert made.resolve(made.exposed_name("fs:a:b")).id == "fs:a:b"
    assert made.resolve("fs__a:b").id == "fs:a:b"
    assert [made.resolve(n) for n in ("", "fs:none", "fs__none", "nosuch:read", "fs")] == [None] * 5

    assert made.get("fs__read") is None


def test_a_tools_own_name_is_enough_while_only_one_server_has_it():
    made = catalog(fs="read", git="log")
    assert made.resolve("read").id == "fs:read"
    made.publish("git", [make_entry("git", {"name": "read"})])
    assert made.resolve("read") is None
    assert made.nearest("read", ROOT) == ["fs__read", "git__read"]
    with pytest.raises(KeyError):
        made.exposed_name("fs:none")


def test_a_server_can_never_take_a_name_of_the_gateways_own():
    log = FakeLog()
    made = catalog(log, a="b")
    made.offer([meta("a__b")])
    assert made.resolve("a__b").id == "pml:a__b"
    assert made.resolve(made.exposed_name("a:b")).id == "a:b"
    ((level, _, fields),) = log.lines
    assert (level, fields["first"], fields["second"], fields["name"]) == ("warning", "pml:a__b", "a:b", "a__b")
    assert fields["renamed_to"] == made.exposed_name("a:b")


def test_a_clash_is_logged_once_and_not_at_every_change():
    log = FakeLog()
    made = catalog(log, a="_x", a_="x")
    made.publish("other", [make_entry("other", {"name": "y"})])
    assert len(log.lines) == 1


def test_an_alias_never_hides_a_tool():
    made = catalog(fs="read")
    made.offer([meta("own", aliases=("fs__read", "fs:read"))])
    assert made.resolve("fs__read").id == made.resolve("fs:read").id == "fs:read"


def test_only_listed_meta_tools_are_marked():
    made = catalog()
    made.offer([meta("b"), meta("a", listed=False)])
    assert [(e.id, e.meta, e.own) for e in made] == [("pml:a", False, True), ("pml:b", True, True)]


def test_publishing_replaces_all_that_a_server_has():
    made = catalog(fs="a b", git="c")
    made.publish("fs", [make_entry("fs", {"name": "b"}), make_entry("fs", {"name": "d"})])
    assert [e.id for e in made] == ["fs:b", "fs:d", "git:c"]
    assert made.resolve("fs__a") is None


def test_the_revision_changes_exactly_with_the_tools_and_definitions():
    made = catalog(fs="a")
    first = made.revision
    made.report(ServerStatus(name="fs", state="down"))
    made.publish("fs", [make_entry("fs", {"name": "a"})])
    assert made.revision == first
    made.publish("fs", [make_entry("fs", {"name": "a", "description": "x"})])
    second = made.revision
    made.offer([meta("m")])
    third = made.revision
    made.offer([meta("m", listed=False)])
    assert len({first, second, third, made.revision}) == 4
    made.offer([])
    made.publish("fs", [make_entry("fs", {"name": "a"})])
    assert made.revision == first


def test_the_revision_does_not_depend_on_the_order_in_which_servers_came():
    assert catalog(a="x", b="y").revision == catalog(b="y", a="x").revision


def test_listeners_hear_of_changes_and_of_nothing_else():
    made, heard = catalog(fs="a b"), []
    made.on_change(lambda: heard.append(made.revision))
    made.publish("fs", [make_entry("fs", {"name": "b"}), make_entry("fs", {"name": "a"})])
    made.report(ServerStatus(name="fs", state="up"))
    assert heard == []
    made.publish("fs", [])
    assert heard == [made.revision]


def test_servers_are_listed_by_name_with_their_last_status():
    made = catalog()
    for name, state in (("b", "up"), ("a", "starting"), ("a", "down")):
        made.report(ServerStatus(name=name, state=state))
    assert [(s.name, s.state) for s in made.servers()] == [("a", "down"), ("b", "up")]
    assert made.status("a").state == "down"
    assert made.status("c") is None


async def test_a_search_sees_the_tools_of_now_and_never_the_gateways_own():
    index = Index()
    made = catalog(index=index, fs="read write")
    made.offer([meta("read_all")])
    assert [m.id for m in await made.search("read", limit=5)] == ["fs:read"]
    await made.search("read", limit=5)
    assert len(index.built) == 1
    made.publish("fs", [make_entry("fs", {"name": "read2"})])
    assert [m.id for m in await made.search("read", limit=5)] == ["fs:read2"]
    assert len(index.built) == 2


async def test_searches_at_the_same_time_build_the_index_once():
    index = Index()
    index.gate = asyncio.Event()
    made = catalog(index=index, fs="read")
    searches = [asyncio.ensure_future(made.search("read", limit=1)) for _ in range(3)]
    await asyncio.sleep(0)
    index.gate.set()
    assert [[m.id for m in await s] for s in searches] == [["fs:read"]] * 3
    assert len(index.built) == 1


async def test_another_index_takes_over_at_once():
    first, second = Index(), Index()
    made = catalog(index=first, fs="read")
    await made.search("read", limit=1)
    made.use_index(second)
    await made.search("read", limit=1)
    assert (len(first.built), len(second.built)) == (1, 1)


async def test_a_search_for_somebody_is_among_what_the_filters_keep_for_them_and_says_so_with_the_same_object():
    index = Index()
    made = catalog(index=index, fs="read read_secret")
    made.filter_with(lambda entry, session: "policy" if "secret" in entry.id and session.key == "guest" else None)
    assert [m.id for m in await made.search("read", limit=5, session=Session(key="guest"))] == ["fs:read"]
    first = index.among
    await made.search("read", limit=5, session=Session(key="guest"))
    assert index.among is first
    await made.search("read", limit=5, session=Session(key="root"))
    assert index.among is None  # nothing is hidden from root
    made.publish("git", [make_entry("git", {"name": "read_log"})])
    found = await made.search("read", limit=5, session=Session(key="guest"))
    assert {m.id for m in found} == {"fs:read", "git:read_log"}


async def test_what_a_session_may_have_is_one_object_with_the_gateways_own_and_a_search_can_be_narrowed():
    made = catalog(index=Index(), fs="read read_secret", git="read_log")
    made.offer([meta("read_all")])
    made.filter_with(lambda entry, session: "policy" if "secret" in entry.id else None)
    guest = Session(key="guest")
    assert made.visible(guest) == {"fs:read", "git:read_log", "pml:read_all"}
    assert made.visible(guest) is made.visible(Session(key="guest"))
    found = await made.search("read", limit=5, session=guest, keep=lambda entry: entry.server == "fs")
    assert [m.id for m in found] == ["fs:read"]
    found = await made.search("read", limit=5, keep=lambda entry: entry.server == "fs")
    assert {m.id for m in found} == {"fs:read", "fs:read_secret"}


async def test_while_a_new_index_is_built_the_one_before_answers_and_names_no_tool_that_is_gone():
    index = Index()
    made = catalog(index=index, fs="read write_read")
    await made.search("read", limit=5)
    index.gate = asyncio.Event()
    made.publish("fs", [make_entry("fs", {"name": "read"}), make_entry("fs", {"name": "read_new"})])
    assert [m.id for m in await made.search("read", limit=5)] == ["fs:read"]
    index.gate.set()
    await asyncio.sleep(0.01)
    assert [m.id for m in await made.search("read", limit=5)] == ["fs:read", "fs:read_new"]


async def test_an_index_that_cannot_be_built_is_logged_and_replaced_by_the_first():
    class Broken(Index):
        async def build(self, entries, revision):
            raise OSError("disk full")

    log, spare = FakeLog(), Index()
    made = catalog(log, spare, fs="read")
    made.use_index(Broken())
    assert [m.id for m in await made.search("read", limit=5)] == ["fs:read"]
    assert "cannot be built" in str(log.lines)


async def test_the_built_in_index_finds_by_words():
    made = LiveCatalog(FakeLog())
    made.publish(
        "fs", [make_entry("fs", {"name": "read_file", "description": "read a file"}), make_entry("fs", {"name": "zip"})]
    )
    assert [m.id for m in await made.search("read file", limit=5)] == ["fs:read_file"]
    assert list(await made.search("", limit=5)) == []


def test_the_nearest_names_are_those_of_the_same_tool_first_and_then_those_spelt_alike():
    made = catalog(fs="read_file write_file", disk="read_file", git="log")
    assert made.nearest("nosuch:read_file", ROOT)[:2] == ["disk__read_file", "fs__read_file"]
    assert made.nearest("fs__raed_file", ROOT)[0] == "fs__read_file"
    assert made.nearest("qqqqqqqq", ROOT) == []
    assert len(made.nearest("fs__read_file", ROOT, 1)) == 1


async def test_one_tool_with_half_a_surrogate_pair_does_not_break_the_catalog():
    made = catalog(fs="read")
    made.publish("bad", [make_entry("bad", {"name": "x\ud800"})])
    made.publish("git", [make_entry("git", {"name": "log"})])
    assert made.resolve("git__log").id == "git:log"
    assert len(made.revision) == len(hashlib.sha256().hexdigest()) // 4
    assert made.resolve(made.exposed_name("bad:x\ud800")).id == "bad:x\ud800"


def test_a_server_may_have_another_prefix_or_none():
    made = catalog()
    made.prefix("git", "")
    made.prefix("web", "w-")
    for server, names in (("fs", ["read"]), ("git", ["log", "search_tools"]), ("web", ["get", "log"])):
        made.publish(server, [make_entry(server, {"name": name}) for name in names])
    made.offer([meta("search_tools")])
    shown = {entry.id: made.exposed_name(entry.id) for entry in made}
    assert [shown[id] for id in ("fs:read", "git:log", "web:get", "web:log")] == ["fs__read", "log", "w-get", "w-log"]
    assert shown["pml:search_tools"] == "search_tools" != shown["git:search_tools"]
    assert made.resolve("log").id == "git:log"
    assert made.resolve("git__log").id == "git:log"
