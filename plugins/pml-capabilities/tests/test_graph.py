from __future__ import annotations

import argparse
import json
import subprocess
import sys

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lessons import Gateway, capability, code, recorded, run_of, some_catalog
from starlette.applications import Starlette
from starlette.routing import Mount

from pml_capabilities import commands, plugin
from pml_capabilities.capability import to_value
from pml_capabilities.graph import graph
from pml_capabilities.library import COLLECTION
from pml_hookspecs import InvalidArguments
from pml_testing.fakes import FakeServices, outcome
from pml_testing.records import execution

pytestmark = pytest.mark.anyio
TOOLS = st.sampled_from(["files:read", "files:write", "web:get", "web:put", "db:query"])
CAPABILITIES = st.lists(st.tuples(st.frozensets(TOOLS, max_size=4), st.integers(0, 9)), max_size=5).map(
    lambda made: [capability(f"c{n}", tools=dict.fromkeys(t, "d"), successes=s) for n, (t, s) in enumerate(made)]
)


@given(CAPABILITIES, st.lists(st.lists(TOOLS | st.just("unknown:tool"), max_size=6), max_size=6))
def test_edges_are_only_between_nodes_and_tools_used_together_have_one(known, together):
    made = graph(known, together)
    kinds = {node["id"]: node["type"] for node in made["nodes"]}
    assert len(kinds) == len(made["nodes"])
    for edge in made["edges"]:
        ends = (kinds.get(edge["source"]), kinds.get(edge["target"]))
        assert ends == (("capability", "tool") if edge["type"] == "uses" else ("tool", "tool"))
        assert edge["source"] != edge["target"]
    tools = {tool for tool, kind in kinds.items() if kind == "tool"}
    expected = {
        (one, other)
        for group in [*(c.tools for c in known), *together]
        for one in group
        for other in group
        if one < other and {one, other} <= tools
    }
    assert {(e["source"], e["target"]) for e in made["edges"] if e["type"] == "used_together"} == expected
    assert {(e["source"], e["target"]) for e in made["edges"] if e["type"] == "uses"} == {
        (c.id, tool) for c in known for tool in c.tools
    }
    assert json.loads(json.dumps(made)) == made == graph(known[::-1], together[::-1])


def services_of(store):
    return FakeServices(store=store, catalog=some_catalog())


async def fill(store):
    digests = {e.id: e.digest for e in some_catalog()}
    tools = {tool: digests[tool] for tool in ("files:read", "web:get")}
    for made in (
        capability("c1aa", name="count_issues", successes=4, failures=1, total_ms=40, tools=tools),
        capability("c1bb", name="summarise", intents=("summarise a page\x1b[2J",), code="return\x1b 2"),
        capability("d2cc", name="old", retired="the tool web:post is gone", principals=frozenset({"bob"})),
    ):
        await store.documents.put(COLLECTION, made.id, to_value(made), marks={"name": made.name})
    await store.executions.put(execution(1, kind="workflow", target="", tool_calls=("web:get", "files:read", "a:b")))
    await store.executions.put(
        execution(2, kind="workflow", target="", dry_run=True, tool_calls=("web:get", "files:read"))
    )


def parsed(*words):
    parser = argparse.ArgumentParser()
    plugin.pml_commands(parser.add_subparsers())
    arguments = parser.parse_args(["capabilities", *words])
    return arguments, arguments.run_with


async def run(store, *words):
    arguments, function = parsed(*words)
    return await function(arguments, services_of(store))


async def test_the_list_is_a_table_without_what_controls_a_terminal(store, capsys):
    assert await run(store, "list") == 0
    assert capsys.readouterr().out == "Nothing was learned yet: code that ends well with an intent is.\n"
    await fill(store)
    assert await run(store, "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "ID    NAME          WELL  MS  STATE    INTENT",
        "c1bb  summarise     1/1   7   learned  summarise a page\\x1b[2J",
        "c1aa  count_issues  4/5   10  proven   count open issues",
    ]


async def test_the_list_can_be_asked_for_what_is_for_something(store, capsys):
    await fill(store)
    await run(store, "list", "open", "issues", "--json")
    assert [c["id"] for c in json.loads(capsys.readouterr().out)] == ["c1aa"]
    await run(store, "list", "--retired", "--json")
    everything = json.loads(capsys.readouterr().out)
    assert {c["id"]: (c["state"], c["retired"]) for c in everything} == {
        "c1aa": ("proven", None),
        "c1bb": ("learned", None),
        "d2cc": ("retired", "the tool web:post is gone"),
    }
    await run(store, "list", "bake", "bread")
    assert capsys.readouterr().out == "Nothing is like that.\n"


async def test_one_is_shown_with_its_code(store, capsys):
    await fill(store)
    await run(store, "show", "summarise")
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "return\\x1b 2" in shown
    await run(store, "show", "c1a", "--json")
    assert json.loads(capsys.readouterr().out)["code"] == "return 1"
    await run(store, "show", "old")
    assert "Not run any more: the tool web:post is gone." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nope", "there is no capability 'nope'; `pml capabilities list"),
        ("c1", "'c1' means c1aa of alice, c1bb of alice; give"),
    ],
)
async def test_one_that_is_not_clear_is_refused_with_what_to_do(store, name, message):
    await fill(store)
    for verb in ("show", "forget"):
        with pytest.raises(InvalidArguments, match=message):
            await run(store, verb, name)


async def test_one_or_all_are_forgotten(store, capsys):
    await fill(store)
    await run(store, "forget", "old")
    assert capsys.readouterr().out == "Forgot d2cc (old).\n"
    await run(store, "forget", "--all", "--json")
    assert set(json.loads(capsys.readouterr().out)["forgotten"]) == {"c1aa", "c1bb"}
    assert (await store.documents.find(COLLECTION)).total == 0


async def test_a_store_without_documents_is_said():
    with pytest.raises(InvalidArguments, match="keeps no documents"):
        await commands.show_list(parsed("list")[0], FakeServices())


async def test_the_graph_is_a_table_or_json(store, capsys):
    await fill(store)
    await run(store, "graph")
    assert capsys.readouterr().out.splitlines() == [
        "FROM          HOW            TO          TIMES",
        "count_issues  uses           files:read  4",
        "count_issues  uses           web:get     4",
        "files:read    used together  web:get     5",
    ]
    await run(store, "graph", "--json")
    made = json.loads(capsys.readouterr().out)
    assert [node["id"] for node in made["nodes"]] == ["c1aa", "c1bb", "d2cc", "files:read", "web:get"]


async def test_the_route_gives_what_the_caller_may_know_of(store):
    await fill(store)
    app = Starlette(routes=[Mount("/capabilities", routes=list(plugin.pml_routes(services_of(store))))])

    async def as_principal(scope, receive, send):
        scope.setdefault("state", {})["principal"] = dict(scope["headers"])[b"x-principal"].decode()
        await app(scope, receive, send)

    transport = httpx2.ASGITransport(app=as_principal)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        answers = {
            name: (await client.get("/capabilities/graph", headers={"x-principal": name})).json()
            for name in ("alice", "bob", "nobody")
        }
    assert {name: [n["id"] for n in a["nodes"]] for name, a in answers.items()} == {
        "alice": ["c1aa", "c1bb", "files:read", "web:get"],
        "bob": ["d2cc"],
        "nobody": [],
    }
    (together,) = [e for e in answers["alice"]["edges"] if e["type"] == "used_together"]
    assert together == {"source": "files:read", "target": "web:get", "type": "used_together", "weight": 5}


def test_hooks_of_one_gateway_share_what_they_know():
    services = FakeServices()
    (wrapper,), (keeps,) = plugin.pml_wrap_executor(services), plugin.pml_filter_tools(services)
    assert wrapper._changed.__self__ is keeps._publisher
    assert keeps.shared  # nothing is published yet
    (other,) = plugin.pml_wrap_executor(FakeServices())
    assert other is not wrapper


def test_nothing_is_filtered_where_everybody_shares_what_was_learned():
    assert plugin.pml_filter_tools(FakeServices(settings=plugin.Settings(shared=True))) == []


async def test_the_end_waits_for_the_last_lesson(store):
    services = services_of(store)
    (wrapper,) = plugin.pml_wrap_executor(services)
    (life,) = plugin.pml_lifespan(services)

    async def ends(task, run):
        return outcome(task.id)

    task, run = code(), run_of()
    await recorded(store, task, run)
    async with life:
        await wrapper(task, run, ends)
    assert (await store.documents.find(COLLECTION)).total == 1
    await services.stop()


def test_importing_it_imports_nothing_heavy():
    heavy = "asyncio", "starlette", "pydantic", "sqlite3"
    script = f"import sys, pml_capabilities, pml_capabilities.plugin; print([m for m in {heavy!r} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"


async def test_a_gateway_without_a_store_shows_and_learns_nothing():
    gateway = Gateway()
    await gateway.publisher.look()
    assert gateway.tools == {}
