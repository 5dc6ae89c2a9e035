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
from dataclasses import replace

import httpx2
import pytest
from made_hooks import EXAMPLES, every_hook

import pml_hookspecs
from pml_core.plugins import registry
from pml_hookspecs import ToolCall, UnauthenticatedError
from pml_testing.fakes import FakeRun
from pml_testing.gateway import ScriptedServer, running

pytestmark = pytest.mark.anyio
HOOKS = [name for _, name, _ in every_hook()]
SCHEMA = {"type": "object"}


def example(hook):
    """The module of an example, as ``[gateway] local`` runs it."""
    path = EXAMPLES / f"{hook.removeprefix('pml_')}.py"
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


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
    metadata = "Metadata-Version: 2.1\nName: pml-largest\nVersion: 1.0\nRequires-Dist: pml-hookspecs>=0.1\n"
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
        f'[gateway]\nlocal = ["{EXAMPLES / "named_tools.py"}"]\n\n[plugins.named_tools.people]\n{people}\n\n'
        f'[servers.demo]\ncommand = "{sys.executable}"\nargs = ["tools.py"]\n',
        encoding="utf-8",
    )
    assert pml(tmp_path, "servers", "list", "--connect", "--config", "pml.toml").returncode == 0
    done = pml(tmp_path, "config", "check", "--json", "--config", "pml.toml")
    warned = [line for line in json.loads(done.stdout)["warnings"] if "plugins.named_tools.people" in line]
    assert len(warned) == 1
    assert "ada: 'demo:short_on' fits no tool; did you mean 'demo:short_one'?" in warned[0]


async def test_search_index(gateway):
    async with gateway([plugin("pml_search_index"), "search_tools"]) as client:
        found = await client.call("search_tools", {"query": "wriet fiel"})
        assert [tool["name"] for tool in found["structuredContent"]["tools"]][:1] == ["files__write_file"]
        nothing = await client.call("search_tools", {"query": "zzz"})
        assert nothing["structuredContent"]["tools"] == []


async def test_embedders(gateway):
    async with gateway([plugin("pml_embedders")]) as client:
        embedder = client.gateway.assembly.services("embedders").embedder
        assert embedder.name == "trigrams-256"
        one, alike, other = await embedder.embed(["read a file", "reads files", "book a hotel"], query=False)
    assert math.hypot(*one) == pytest.approx(1)
    assert sum(map(math.prod, zip(one, alike, strict=True))) > 2 * sum(map(math.prod, zip(one, other, strict=True)))


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


async def test_suggesters(gateway):
    # What may change something waits for a human when no human chose it.
    marks = {"inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}
    server = ScriptedServer([{"name": name, **marks} for name in ("read_file", "list_files")])
    recipes = {"weekly report": ["files:read_file", "files:list_files"], "odd": ["x:y"]}
    settings = {"suggesters": {"recipes": recipes}, "dag": {"confidence_mode": "speculative_execution"}}
    plugins = [plugin("pml_suggesters"), "dag", "workflow_tool"]
    async with gateway(plugins, {"files": server}, settings=settings) as client:
        services = client.gateway.assembly.services("suggesters")
        (plan,) = await services.suggest("Write the weekly report", FakeRun())
        assert [task.tool for task in plan.workflow.tasks] == ["files:read_file", "files:list_files"]
        assert await services.suggest("an odd wish", FakeRun()) == []
        done = await client.call("execute_workflow", {"intent": "write the weekly report"})
        assert done["structuredContent"]["status"] == "completed"
    assert [name for name, _ in server.calls] == ["read_file", "list_files"]


@asynccontextmanager
async def listening(*hooks, **settings):
    """The address of a gateway that listens, with the examples of these hooks."""
    (http,) = [one for one in registry.discover() if (one.kind, one.name) == ("transport", "http")]
    plugins = {plugin(hook)[:2]: plugin(hook)[2] for hook in hooks}
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
    async with listening("pml_routes") as address, httpx2.AsyncClient(base_url=address) as web:
        answer = await web.get("/routes/servers")
        assert answer.json() == {"files": {"state": "up", "tools": 2}}


async def test_api_routes():
    async with listening("pml_api_routes") as address, httpx2.AsyncClient(base_url=address) as web:
        answer = await web.post("/api/call/files:read_file", json={"path": "a"})
        assert answer.json()["structuredContent"] == {"path": "a"}
        unknown = await web.post("/api/call/no_such_tool", json={})
        assert (unknown.status_code, unknown.json()["code"]) == (400, "tool.unknown")


async def test_identities(gateway):
    key = "team_secret"
    digest = hashlib.sha256(key.encode()).hexdigest()
    settings = {"identities": {"keys": {digest: "ada"}}}
    async with gateway([plugin("pml_identities")], settings=settings) as client:
        services = client.gateway.assembly.services("identities")
        ada = await services.identify(key)
        assert (ada.principal, ada.access_key, ada.scopes) == ("ada", digest[:8], {"team"})
        assert (await services.scope(services.session(ada))).principals == {"ada"}
        call = ToolCall(id="call", tool="files:read_file")
        assert (await services.run(call, services.session(ada))).failure is None
        gone = services.session(replace(ada, access_key="0" * 8))
        assert (await services.run(call, gone)).failure.code == "access.ended"
        assert await services.identify("somebody else's") is None
        with pytest.raises(UnauthenticatedError, match="Ask your team"):
            await services.identify("team_wrong")
    headers = {"authorization": f"Bearer {key}"}
    async with (
        listening("pml_identities", "pml_routes", **settings) as address,
        httpx2.AsyncClient(base_url=address) as web,
    ):
        assert (await web.get("/routes/servers", headers=headers)).status_code == 200
        assert (await web.get("/routes/servers", headers={"authorization": "Bearer team_wrong"})).status_code == 401


async def test_access_watchers(capfd):
    tables = {"access_watchers": {"many": 3}, "http": {"tokens": {"ada": "the-token-of-ada"}}}
    async with listening("pml_access_watchers", **tables) as address, httpx2.AsyncClient(base_url=address) as web:
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
