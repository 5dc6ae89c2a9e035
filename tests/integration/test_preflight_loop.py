"""On a real server: rehearse a plan, look at the report, run exactly that plan."""

from __future__ import annotations

import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_dry_run import plugin as dry_run
from pml_executor_dag import Dag, tool
from pml_preflight import plugin as preflight
from pml_settings.config import Config, GatewaySettings, ServerSettings, Source
from pml_store_sqlite import SqliteStore
from pml_testing.gateway import Client, until, value_of
from pml_transport_stdio import Stdio

pytestmark = pytest.mark.anyio
BENCH = Path(__file__).parents[1] / "bench" / "preflight"
SERVER = Path(__file__).with_name("notes_server.py")
PLAN = {
    "workflow": {
        "tasks": [
            {"id": "look", "tool": "notes:lines"},
            {
                "id": "write",
                "tool": "notes__add",
                "arguments": {"text": "after {{look.last}}"},
                "compensate": {"tool": "notes:remove", "arguments": {"text": "{{write.last}}"}},
            },
            {"id": "sum", "type": "code_execution", "language": "python", "code": "return len(write['lines'])",
             "depends_on": ["write"]},
        ]
    },
    "intent": "write a note",
}  # fmt: skip
CALLS = {"workflow": {"tasks": PLAN["workflow"]["tasks"][:2]}, "intent": "write a note"}


@asynccontextmanager
async def with_notes(folder, script=SERVER, *, broken=False):
    """A gateway with a store on disk and a notebook server in a process of its own, and a client."""
    servers = {"notes": ServerSettings(command=sys.executable, args=(str(script), str(folder / "notes.txt")))}
    if broken:
        servers["gone"] = ServerSettings(command=sys.executable, args=("-c", "raise SystemExit('no')"))
    config = Config(
        gateway=GatewaySettings(log_level="error", store="sqlite"),
        servers=servers,
        tables={"sqlite": {"path": str(folder / "pml.db")}},
        sources=(Source("test", {}),),
    )
    found = [
        registry.provide("pml.transport", "stdio", Stdio),
        registry.provide("pml.executor", "dag", Dag),
        registry.provide("pml.store", "sqlite", SqliteStore),
        registry.provide("pml.plugins", "workflow_tool", tool),
        registry.provide("pml.plugins", "dry_run", dry_run),
        registry.provide("pml.plugins", "preflight", preflight),
    ]
    async with Gateway(config, None, found) as started:
        await started.servers_tried()
        client = Client(started)
        await client.initialize()
        client.gateway = started
        yield client, folder / "notes.txt"


async def ask(client, request, **more):
    answer = await client.call("execute_workflow", {**request, **more})
    return answer["_meta"]["pml/failure"] if "pml/failure" in answer.get("_meta", {}) else value_of(answer)


async def test_simulate_review_run_with_the_same_request(tmp_path):
    async with with_notes(tmp_path) as (client, notes):
        rehearsed = await ask(client, CALLS, dry_run=True)
        report = rehearsed["preflight"]
        assert (rehearsed["status"], report["ok"], report["errors"], report["warnings"]) == ("simulated", True, [], [])
        assert report["tools_called"] == ["notes:lines", "notes:add"]
        assert [step["effect"] for step in report["steps"]] == ["reads", "destroys"]
        assert [step["reversible"] for step in report["steps"]] == [True, True]
        assert report["estimated_duration_ms"] is None
        assert not notes.exists()
        ran = await ask(client, CALLS, dry_run=False)
        assert (ran["status"], notes.read_text()) == ("completed", "after null\n")
        assert "preflight" not in ran
        agreed = await ask(client, CALLS, dry_run=False, plan_digest=rehearsed["plan_digest"])
        assert (agreed["status"], notes.read_text()) == ("completed", "after null\nafter after null\n")


async def test_what_ran_is_known_to_the_next_rehearsal(tmp_path):
    async with with_notes(tmp_path) as (client, _):
        await ask(client, CALLS)
        report = (await ask(client, PLAN, dry_run=True))["preflight"]
        look, write, _ = report["steps"]
        assert (look["answer"], write["answer"]) == ("recorded", "example")
        assert (report["cache_hits"], report["cache_misses"]) == (["look"], ["write"])
        assert (look["samples"], write["samples"]) == (1, 1)
        assert report["estimated_duration_ms"] == look["estimated_duration_ms"] + write["estimated_duration_ms"]
        assert (report["critical_path"], report["without_estimate"]) == (["look", "write", "sum"], ["sum"])
        # Learned from the one real answer, since the server declares nothing.
        tasks = [PLAN["workflow"]["tasks"][0], {"id": "b", "tool": "notes:add", "arguments": {"text": "{{look.lats}}"}}]
        wrong = (await ask(client, {"workflow": {"tasks": tasks}}, dry_run=True))["preflight"]["warnings"]
        assert [(one["code"], one["task"], one["at"]) for one in wrong] == [
            ("reference.undeclared", "b", "arguments.text")
        ]
        assert "did you mean 'last'?" in wrong[0]["message"]


async def test_a_plan_that_cannot_run_is_reported_all_the_same(tmp_path):
    tasks = [
        {"id": "a", "tool": "notes:ad", "arguments": {"text": "x"}, "depends_on": ["c"]},
        {"id": "b", "tool": "notes:add", "arguments": {"text": 5}},
        {"id": "c", "tool": "gone:tool", "depends_on": ["a"]},
        {"id": "d", "type": "code_execution", "language": "python", "code": "return (", "depends_on": ["b"]},
    ]
    async with with_notes(tmp_path, broken=True) as (client, notes):
        answer = await client.call("execute_workflow", {"workflow": {"tasks": tasks}, "dry_run": True})
        told = value_of(answer)
        assert (answer["isError"], told["status"], told["error"]["code"]) == (True, "failed", "workflow.invalid")
        report = told["preflight"]
        found = {(one["task"], one["code"]) for one in report["errors"]}
        assert found == {
            ("a", "plan.cycle"),
            ("a", "tool.unknown"),
            ("b", "argument.type"),
            ("c", "server.unavailable"),
            ("d", "code.syntax"),
        }
        assert report["missing_tools"][0]["nearest"][0] == "notes__add"
        assert (report["ok"], report["syntax_valid"]) == (False, False)
        assert "tool.unknown" in report["text"]
        assert not notes.exists()


async def test_a_digest_outlives_the_gateway_and_not_a_change_of_a_tool(tmp_path):
    script = tmp_path / "server.py"
    script.write_text(SERVER.read_text())
    async with with_notes(tmp_path, script) as (client, _):
        digest = (await ask(client, CALLS, dry_run=True))["plan_digest"]
    async with with_notes(tmp_path, script) as (client, _):
        assert (await ask(client, CALLS, plan_digest=digest))["status"] == "completed"
    script.write_text(SERVER.read_text().replace('{"name": "add", ', '{"name": "add", "description": "Adds twice", '))
    async with with_notes(tmp_path, script) as (client, notes):
        # What a server had last time is known before it is up; the plan is held to what it has now.
        await until(lambda: client.gateway.catalog.resolve("notes:add").description == "Adds twice")
        before = notes.read_text()
        refused = await ask(client, CALLS, plan_digest=digest)
        assert refused["code"] == "plan.changed"
        assert refused["details"]["changed"] == ["task 'write': the definition of the tool notes:add"]
        assert notes.read_text() == before


def test_the_benchmark_keeps_its_bounds():
    command = [sys.executable, str(BENCH), "--plans", "90", "--seed", "11", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
