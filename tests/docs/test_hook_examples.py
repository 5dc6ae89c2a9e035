"""Each hook's example in the documentation does, in a gateway, what it says."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import math
import os
import pkgutil
import subprocess
import sys
import tomllib
from contextlib import asynccontextmanager
from datetime import date

import httpx2
import pytest
from made_hooks import EXAMPLES, every_hook

import pml_hookspecs
from pml_core.plugins import registry
from pml_hookspecs import RpcError, Session, ToolCall, UnauthenticatedError, replace
from pml_kit.offers import (
    ACCESS,
    API_DESCRIPTIONS,
    EMBEDDER,
    INDIRECT_CALLS,
    METRICS_PAGE,
    OF_PLUGINS,
    READINESS,
    RESULT_VALUES,
    SUGGESTER,
)
from pml_testing.fakes import FakeRun
from pml_testing.gateway import ScriptedServer, running, value_of

pytestmark = pytest.mark.anyio
HOOKS = [name for name, _ in every_hook()]
SCHEMA = {"type": "object"}
TITLES = [("open", "open"), ("close", "End")]


def example(hook):
    """The module of an example, as ``[gateway] local`` runs it."""
    path = EXAMPLES / f"{hook.removeprefix('pml_')}.py"
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def offering(key):
    """The plugin of an example that offers something under one of PML's keys."""
    path = EXAMPLES / "offers" / f"{key}.py"
    spec = importlib.util.spec_from_file_location(f"offers_{key}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return ("hooks", key, module)


def plugin(hook):
    return ("hooks", hook.removeprefix("pml_"), example(hook))


def refused(result):
    return result["content"][0]["text"] if result.get("isError") else None


def pml(folder, *words, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    command = [sys.executable, "-m", "pml_core", *words]
    environment = {**kept, "PML_HOME": str(folder), **environment}
    return subprocess.run(
        command, capture_output=True, check=False, cwd=folder, encoding="utf-8", env=environment, timeout=120
    )


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_has_an_example_that_implements_it_alone(hook):
    module = example(hook)
    found = [name for name in vars(module) if name.startswith("pml_")]
    assert found == [hook]
    assert len((EXAMPLES / f"{hook.removeprefix('pml_')}.py").read_text(encoding="utf-8").splitlines()) < 80


def test_no_hook_is_forgotten():
    """Also of a class of hook specs that is new."""
    declared = set()
    for module in pkgutil.iter_modules(pml_hookspecs.__path__):
        for name, found in vars(importlib.import_module(f"pml_hookspecs.{module.name}")).items():
            if isinstance(found, type) and name.endswith("Hooks"):
                declared |= {member for member in vars(found) if member.startswith("pml_")}
    assert declared == set(HOOKS)


def test_there_is_no_example_of_a_hook_that_does_not_exist():
    assert sorted(f"pml_{path.stem}" for path in EXAMPLES.glob("*.py")) == sorted(HOOKS)


async def test_offers(gateway):
    module = example("pml_offers")
    async with gateway([("hooks", "offers", module)]) as client:
        calendar = client.gateway.assembly.services("offers").find(module.CALENDAR)
        assert calendar.holiday(date(2026, 12, 25)) == "Christmas Day"
        assert calendar.holiday(date(2026, 12, 27)) == ""


def test_every_key_that_plugins_offer_by_has_an_example():
    for path in EXAMPLES.glob("offers/*.py"):
        (_, _, module) = offering(path.stem)
        assert [name for name in vars(module) if name.startswith("pml_") and name != "pml_kit"] == ["pml_offers"]
        assert len(path.read_text(encoding="utf-8").splitlines()) < 80
    assert {path.stem for path in EXAMPLES.glob("offers/*.py")} == {key.name for key in OF_PLUGINS}


async def test_lifespan(gateway, tmp_path):
    path = tmp_path / "ready"
    async with gateway([plugin("pml_lifespan")], settings={"lifespan": {"path": str(path)}}):
        assert path.is_file()
    assert not path.exists()


async def test_meta_tools(gateway):
    settings = {"meta_tools": {"teams": {"search": "ada", "billing": "bob"}}}
    async with gateway([plugin("pml_meta_tools")], settings=settings) as client:
        answer = await client.call("who_is_on_call", {"team": "search"})
        assert answer["structuredContent"] == {"team": "search", "person": "ada"}
        assert "billing, search" in refused(await client.call("who_is_on_call", {"team": "sales"}))


def test_commands(tmp_path):
    """Installed, as the commands of plugins have to be."""
    site = tmp_path / "site"
    about = site / "pml_largest-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "pml_largest.py").write_text((EXAMPLES / "commands.py").read_text(encoding="utf-8"), encoding="utf-8")
    metadata = "Metadata-Version: 2.1\nName: pml-largest\nVersion: 1.0\nRequires-Dist: pml-hookspecs>=0.2\n"
    (about / "METADATA").write_text(metadata, encoding="utf-8")
    (about / "entry_points.txt").write_text("[pml.plugins]\nlargest = pml_largest\n", encoding="utf-8")
    (tmp_path / "tools.py").write_text(SERVER, encoding="utf-8")
    (tmp_path / "pml.toml").write_text(
        f'[servers.demo]\ncommand = "{sys.executable}"\nargs = ["tools.py"]\n', encoding="utf-8"
    )
    done = pml(tmp_path, "largest", "--connect", "--limit", "1", "--config", "pml.toml", PYTHONPATH=str(site))
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["demo:long_one"]


SERVER = """
import json, sys

TOOLS = [{"name": "short_one", "inputSchema": {"type": "object"}},
         {"name": "long_one", "description": "x" * 400, "inputSchema": {"type": "object"}}]
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"tools": TOOLS} if asked["method"] == "tools/list" else {}
    if asked["method"] == "initialize":
        about = {"name": "demo", "version": "1"}
        answer = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""


def test_checks(tmp_path):
    text = (
        f'[gateway]\nlocal = ["{EXAMPLES / "checks.py"}"]\n\n[plugins.checks]\nprograms = ["sh", "no-such-program"]\n'
    )
    (tmp_path / "pml.toml").write_text(text, encoding="utf-8")
    done = pml(tmp_path, "plugins", "doctor", "--json", "--config", "pml.toml")
    assert done.returncode == 1, done.stderr
    lines = {line["subject"]: line for line in json.loads(done.stdout)}
    (good,) = [line for subject, line in lines.items() if "program sh" in subject]
    (bad,) = [line for subject, line in lines.items() if "program no-such-program" in subject]
    assert good["ok"]
    assert (bad["ok"], bad["remedy"]) == (False, "Install no-such-program.")


def test_named_tools(tmp_path):
    (tmp_path / "tools.py").write_text(SERVER, encoding="utf-8")
    people = 'ada = ["demo:short_on", "demo:long_*"]'
    (tmp_path / "pml.toml").write_text(
        f'[gateway]\nlocal = ["{EXAMPLES / "offers" / "tool_names.py"}"]\n\n[plugins.tool_names.people]\n{people}\n\n'
        f'[servers.demo]\ncommand = "{sys.executable}"\nargs = ["tools.py"]\n',
        encoding="utf-8",
    )
    assert pml(tmp_path, "servers", "list", "--connect", "--config", "pml.toml").returncode == 0
    done = pml(tmp_path, "config", "check", "--json", "--config", "pml.toml")
    warned = [line for line in json.loads(done.stdout)["warnings"] if "plugins.tool_names.people" in line]
    assert len(warned) == 1
    assert "ada: 'demo:short_on' fits no tool; did you mean 'demo:short_one'?" in warned[0]


async def test_offered_search(gateway):
    async with gateway([offering("search"), "search_tools"]) as client:
        found = await client.call("search_tools", {"query": "wriet fiel"})
        assert [tool["name"] for tool in found["structuredContent"]["tools"]][:1] == ["files__write_file"]
        nothing = await client.call("search_tools", {"query": "zzz"})
        assert nothing["structuredContent"]["tools"] == []


async def test_offered_presentation(gateway):
    settings = {"presentation": {"words": {"files:read_file": "Liest eine Datei."}}}
    async with gateway([offering("presentation"), "search_tools"], settings=settings) as client:
        listed = {tool["name"]: tool for tool in (await client.request("tools/list"))["tools"]}
        assert listed["files__read_file"]["description"] == "Liest eine Datei."
        found = await client.call("search_tools", {"query": "datei"})
        assert [tool["name"] for tool in found["structuredContent"]["tools"]] == ["files__read_file"]


async def test_offered_embedder(gateway):
    async with gateway([offering("embedder")]) as client:
        embedder = client.gateway.offers.find(EMBEDDER)
        assert embedder.name == "trigrams-256"
        one, alike, other = await embedder.embed(["read a file", "reads files", "book a hotel"], query=False)
    assert math.hypot(*one) == pytest.approx(1)
    assert sum(map(math.prod, zip(one, alike, strict=True))) > 2 * sum(map(math.prod, zip(one, other, strict=True)))


async def test_offered_readiness_checks(gateway, tmp_path):
    settings = {"readiness_checks": {"folder": str(tmp_path / "reports")}}
    async with gateway([offering("readiness_checks")], settings=settings) as client:
        parts = {part.name: part for part in await client.gateway.offers.find(READINESS).parts()}
        assert not parts["reports"].ready
        assert parts["reports"].detail == f"{tmp_path / 'reports'} is away"
        assert parts["store"].ready


async def test_offered_metrics_page(gateway):
    async with gateway([offering("metrics_page")]) as client:
        page = await client.gateway.offers.find(METRICS_PAGE).page()
        assert page == f"# TYPE team_tools gauge\nteam_tools {len(client.gateway.catalog)}\n"


async def test_offered_guides(gateway):
    async with gateway([offering("guides")]) as client:
        read = await client.request("resources/read", {"uri": "pml://guide/releases"})
        assert "git:git_log" in read["contents"][0]["text"]


async def test_offered_api_descriptions(gateway):
    async with gateway([offering("api_descriptions"), "execution_tools"]) as client:
        ((_, offered),) = client.gateway.offers.find_all(API_DESCRIPTIONS)
        assert "/api/releases" in offered().paths


async def test_offered_answers(gateway):
    server = ScriptedServer(["read"])
    async with gateway([offering("answers")], {"cards": server}) as client:
        paid = {"of": ["4000 1234 5678 9010", 12]}
        answer = await client.call("cards__read", paid)
        assert answer["structuredContent"] == {"of": ["**** **** **** 9010", 12]}
        assert "5678" not in json.dumps(answer)
        billing = await client.another(principal="bob", scopes=frozenset({"billing"}))
        assert (await billing.call("cards__read", paid))["structuredContent"] == paid


async def test_offered_flows(gateway):
    plugins = [offering("flows"), "approvals", "dag", "workflow_tool"]
    async with gateway(plugins, {"files": ScriptedServer()}) as client:
        task = {"id": "w", "tool": "files:write_file", "approve": True}
        told = value_of(await client.call("execute_workflow", {"workflow": {"tasks": [task]}}))
        assert "nobody knows where its values come from" in json.dumps(told)


async def test_offered_recorded_answers(gateway):
    settings = {"recorded_answers": {"durations_ms": {"files:read_file": 1500}}}
    plugins = [offering("recorded_answers"), "preflight", "dag", "workflow_tool"]
    async with gateway(plugins, settings=settings) as client:
        plan = {"workflow": {"tasks": [{"id": "r", "tool": "files:read_file"}]}, "dry_run": True}
        report = value_of(await client.call("execute_workflow", plan))["preflight"]
        assert report["estimated_duration_ms"] == 1500


async def test_offered_resource_tools(gateway):
    settings = {"resource_tools": {"texts": {"holidays": "Closed on Friday."}}}
    async with gateway([offering("resource_tools")], settings=settings) as client:
        listed = await client.request("resources/templates/list")
        assert [one["uriTemplate"] for one in listed["resourceTemplates"]] == ["pml://notes/{name}"]
        read = await client.request("resources/read", {"uri": "pml://notes/holidays"})
        assert read["contents"] == [{"uri": "pml://notes/holidays", "text": "Closed on Friday."}]
        with pytest.raises(RpcError, match="Resource not found"):
            await client.request("resources/read", {"uri": "pml://notes/other"})


async def test_offered_result_values(gateway):
    server = ScriptedServer(["write_file"])
    async with gateway([offering("result_values"), "dag", "workflow_tool"], {"files": server}) as client:
        kept = client.gateway.offers.find(RESULT_VALUES)
        kept.results = {"r1": ("local", {"lines": ["a", "b"]}), "r2": ("bob", "secret")}
        for reference, said in (("r1.lines[1]", None), ("r2", "there is no result 'r2'"), ("r1.x", "'x' is not in")):
            task = {"id": "w", "tool": "files:write_file", "arguments": {"text": f"{{{{result:{reference}}}}}"}}
            answer = await client.call("execute_workflow", {"workflow": {"tasks": [task]}})
            assert (said or "completed") in answer["content"][0]["text"]
    assert [dict(arguments) for _, arguments in server.calls] == [{"text": "b"}]


async def test_offered_selectors(gateway):
    settings = {"selectors": {"members": {"tickets:*": ["id", "title", "owner"]}}}
    servers = {"tickets": ScriptedServer(["read"]), "files": ScriptedServer()}
    async with gateway([offering("selectors")], servers, settings=settings) as client:
        ticket = {"id": 7, "title": "Mend it", "history": ["opened", "moved"]}
        answer = await client.call("tickets__read", ticket)
        assert answer["content"] == [{"type": "text", "text": "id: 7, title: Mend it"}]
        assert "structuredContent" not in answer
        assert (await client.call("files__read_file", ticket))["structuredContent"] == ticket


async def test_offered_definitions(gateway):
    servers = {"tickets": ScriptedServer([{"name": n, "title": t, "inputSchema": SCHEMA} for n, t in TITLES])}
    async with gateway([offering("definitions")], servers) as client:
        listed = (await client.request("tools/list"))["tools"]
        assert {tool["name"]: tool.get("title") for tool in listed} == {"tickets__open": None, "tickets__close": "End"}


async def test_offered_phrases(gateway):
    definition = {"name": "read", "description": "Reads from db7.corp.example", "inputSchema": SCHEMA}
    servers = {"store": ScriptedServer([definition])}
    inspection = ("hooks", "inspection", importlib.import_module("pml_inspection.plugin"))
    async with gateway([offering("phrases"), inspection], servers) as client:
        (tool,) = (await client.request("tools/list"))["tools"]
        found = tool["_meta"]["pml/inspection"]["findings"]
        assert found == [{"rule": "host", "reason": "it names an internal host"}]


async def test_offered_tool_notes(gateway):
    settings = {"tool_notes": {"advice": {"tickets:close": "needs a reason"}}}
    servers = {"tickets": ScriptedServer(["close"])}
    async with gateway([offering("tool_notes"), "search_tools"], servers, settings=settings) as client:
        answer = await client.call("search_tools", {"query": "tickets:close"})
        assert value_of(answer)["tools"][0]["seen"] == {"advice": "needs a reason"}


async def test_offered_log_export(gateway, tmp_path, monkeypatch):
    monkeypatch.setattr("pml_audit.export.exporter.LOOK_S", 0.02)
    audit = ("hooks", "audit", importlib.import_module("pml_audit.plugin"))
    file = tmp_path / "records.jsonl"
    settings = {"audit": {"folder": str(tmp_path / "audit"), "otlp": True}, "log_export": {"file": str(file)}}
    async with gateway([offering("log_export"), audit], settings=settings):
        pass
    events = [json.loads(line)["event"] for line in file.read_text(encoding="utf-8").splitlines()]
    assert (events[0], events[-1]) == ("pml.audit.audit.began", "pml.audit.gateway.stopped")


async def test_filter_tools(gateway):
    settings = {"filter_tools": {"only": {"files:write_*": "ops"}}}
    async with gateway([plugin("pml_filter_tools")], settings=settings) as client:
        assert "files__write_file" not in await client.tools()
        assert refused(await client.call("files__write_file")) is not None
        ops = await client.another(principal="bob", scopes=frozenset({"ops"}))
        assert "files__write_file" in await ops.tools()
        assert refused(await ops.call("files__write_file")) is None


async def test_wrap_executor(gateway):
    reads = {"name": "read", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}
    server = ScriptedServer([reads, "write"])
    async with gateway([plugin("pml_wrap_executor")], {"files": server}) as client:
        first, second = [await client.call("files__read", {"path": "a"}) for _ in range(2)]
        assert first["structuredContent"] == second["structuredContent"]
        assert len(server.calls) == 1
        await client.call("files__read", {"path": "b"})
        await (await client.another(principal="bob")).call("files__read", {"path": "a"})
        assert len(server.calls) == 3
        for _ in range(2):
            await client.call("files__write", {"path": "a"})
        assert len(server.calls) == 5


async def test_offered_indirect_calls(gateway):
    settings = {"indirect_calls": {"prefixes": {"claude-code": "mcp__pml__"}}}
    async with gateway([offering("indirect_calls")], settings=settings) as client:
        calling = client.gateway.offers.find(INDIRECT_CALLS)
        names = [calling(Session(key="k", client=name), "read") for name in ("claude-code/2.1", "cursor/1")]
        assert names == ["mcp__pml__call_tool", "call_tool"]


async def test_offered_suggester(gateway):
    # What may change something waits for a human when no human chose it.
    marks = {"inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}
    server = ScriptedServer([{"name": name, **marks} for name in ("read_file", "list_files")])
    recipes = {"weekly report": ["files:read_file", "files:list_files"], "odd": ["x:y"]}
    settings = {"suggester": {"recipes": recipes}, "dag": {"confidence_mode": "speculative_execution"}}
    plugins = [offering("suggester"), "dag", "workflow_tool"]
    async with gateway(plugins, {"files": server}, settings=settings) as client:
        suggester = client.gateway.offers.find(SUGGESTER)
        (plan,) = await suggester.suggest("Write the weekly report", FakeRun(), limit=3)
        assert [task.tool for task in plan.workflow.tasks] == ["files:read_file", "files:list_files"]
        assert await suggester.suggest("an odd wish", FakeRun(), limit=3) == []
        done = await client.call("execute_workflow", {"intent": "write the weekly report"})
        assert value_of(done)["status"] == "completed"
    assert [name for name, _ in server.calls] == ["read_file", "list_files"]


@asynccontextmanager
async def listening(*examples, **settings):
    """The address of a gateway that listens, with these examples."""
    (http,) = [one for one in registry.discover() if (one.kind, one.name) == ("transport", "http")]
    plugins = {("guards", name): module for _, name, module in examples}
    plugins["transport", "http"] = http.entry_point.load()
    bound = asyncio.get_running_loop().create_future()
    async with running({"files": ScriptedServer()}, plugins=plugins, tables=settings) as started:
        serving = asyncio.create_task(started.serve("http://127.0.0.1:0", started=bound.set_result))
        try:
            async with asyncio.timeout(10):
                yield await bound
        finally:
            serving.cancel()
            await asyncio.wait([serving])


async def test_routes():
    async with listening(plugin("pml_routes")) as address, httpx2.AsyncClient(base_url=address) as web:
        answer = await web.get("/routes/servers")
        assert answer.json() == {"files": {"state": "up", "tools": 2}}
        answer = await web.post("/api/call/files:read_file", json={"path": "a"})
        assert answer.json()["structuredContent"] == {"path": "a"}
        unknown = await web.post("/api/call/no_such_tool", json={})
        assert (unknown.status_code, unknown.json()["code"]) == (400, "tool.unknown")


async def test_offered_identities(gateway):
    key = "team_secret"
    digest = hashlib.sha256(key.encode()).hexdigest()
    settings = {"identities": {"keys": {digest: "ada"}}}
    async with gateway([("guards", *offering("identities")[1:])], settings=settings) as client:
        services = client.gateway.assembly.services("identities")
        access = services.find(ACCESS)
        ada = await access.identify(key)
        assert (ada.principal, ada.access_key, ada.scopes) == ("ada", digest[:8], {"team"})
        assert (await access.scope(services.session(ada))).principals == {"ada"}
        call = ToolCall(id="call", tool="files:read_file")
        assert (await services.run(call, services.session(ada))).failure is None
        gone = services.session(replace(ada, access_key="0" * 8))
        assert (await services.run(call, gone)).failure.code == "access.ended"
        assert await access.identify("somebody else's") is None
        with pytest.raises(UnauthenticatedError, match="Ask your team"):
            await access.identify("team_wrong")
    headers = {"authorization": f"Bearer {key}"}
    async with (
        listening(offering("identities"), plugin("pml_routes"), **settings) as address,
        httpx2.AsyncClient(base_url=address) as web,
    ):
        assert (await web.get("/routes/servers", headers=headers)).status_code == 200
        assert (await web.get("/routes/servers", headers={"authorization": "Bearer team_wrong"})).status_code == 401


async def test_offered_protected_resource():
    about = "/.well-known/oauth-protected-resource/mcp"
    tables = {"http": {"tokens": {"ada": "the-token-of-ada"}}}
    async with (
        listening(offering("protected_resource"), plugin("pml_routes"), **tables) as address,
        httpx2.AsyncClient(base_url=address) as web,
    ):
        said = (await web.get(about)).json()
        assert said == {
            "resource": "https://gateway.example/mcp",
            "authorization_servers": ["https://login.example"],
        }
        refused = await web.post("/mcp", json={})
        assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="https://gateway.example{about}"'
        ada = {"authorization": "Bearer the-token-of-ada"}
        assert (await web.get("/routes/servers", headers=ada)).status_code == 200
        refused = await web.post("/api/call/files:read_file", json={"path": "a"}, headers=ada)
        assert refused.status_code == 403
        assert refused.headers["www-authenticate"].startswith('Bearer error="insufficient_scope", scope="history"')


async def test_offered_access_watchers(capfd):
    tables = {"access_watchers": {"many": 3}, "http": {"tokens": {"ada": "the-token-of-ada"}}}
    async with listening(offering("access_watchers"), **tables) as address, httpx2.AsyncClient(base_url=address) as web:
        for _ in range(2):
            assert (await web.get("/mcp")).status_code == 401
        assert "many come without a key" not in capfd.readouterr().err
        for _ in range(2):
            assert (await web.get("/mcp", headers={"authorization": "Bearer hunter2"})).status_code == 401
        said = capfd.readouterr().err
        assert (said.count("many come without a key"), "127.0.0.1" in said, "hunter2" in said) == (1, True, False)


def test_the_page_says_how_to_load_one(root):
    page = (root / "docs" / "plugins" / "hooks.md").read_text(encoding="utf-8")
    found = page.partition("```toml\n")[2].partition("```")[0]
    assert tomllib.loads(found) == {"gateway": {"local": ["./policy.py"]}}
