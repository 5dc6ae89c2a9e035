"""The TypeScript SDK's clients against ``pml serve``: version 1, and version 2 in both ways to open a connection."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pml_testing.gateway import value_of

SERVERS = Path(__file__).with_name("servers")
SCRIPT = Path(__file__).with_name("clients") / "typescript.mjs"
PML = str(Path(sys.executable).with_name("pml"))
RUN_S = 120.0
KINDS = {"sdk-1": (1, "legacy"), "client-2-legacy": (2, "legacy"), "client-2-auto": (2, "auto")}


@dataclass(frozen=True)
class Ran:
    """What a client saw, and the folder that it worked in."""

    kind: str
    folder: Path
    seen: dict[str, Any]


@pytest.fixture(scope="module", params=KINDS)
def ran(request, node_tools, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    program = str(node_tools / "node")
    everything = node_tools / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    notes, cancelled = str(folder / "notes.txt"), str(folder / "cancelled.txt")
    servers = {
        "everything": [program, str(everything), "stdio"],
        "lively": [sys.executable, str(SERVERS / "lively.py"), "--notes", cancelled],
        "plain": [sys.executable, str(SERVERS / "plain.py"), "--notes", notes],
        "typed": [sys.executable, str(SERVERS / "typed.py")],
    }
    config = {"mcpServers": {name: {"command": first, "args": rest} for name, (first, *rest) in servers.items()}}
    (folder / "mcp.json").write_text(json.dumps(config))
    # Node looks for packages beside the script.
    script = shutil.copy(SCRIPT, folder)
    (folder / "node_modules").symlink_to(node_tools / "node_modules")
    sdk, mode = KINDS[request.param]
    given = {
        "sdk": sdk,
        "mode": mode,
        "command": PML,
        "args": ["serve", "--mode", "full_proxy", "--config", str(folder / "mcp.json")],
        "env": {"PATH": os.environ["PATH"], "PML_HOME": str(folder / "home")},
        "cwd": str(folder),
    }
    done = subprocess.run(
        [program, script, json.dumps(given)], capture_output=True, text=True, timeout=RUN_S, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return Ran(request.param, folder, json.loads(done.stdout))


def text_of(result):
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def test_the_client_connects_in_the_newest_revision_that_it_asks_for(ran):
    assert ran.seen["protocol"] == ("2026-07-28" if ran.kind == "client-2-auto" else "2025-11-25")
    assert ran.seen["server"]["name"] == "pml"


def test_the_client_lists_the_tools_of_all_servers(ran):
    tools = {tool["name"]: tool for tool in ran.seen["tools"]}
    assert {"plain__echo", "typed__add", "lively__wait", "everything__get-structured-content"} <= tools.keys()
    assert tools["typed__add"]["outputSchema"]["properties"].keys() == {"total", "parts"}


def test_the_client_calls_tools(ran):
    assert text_of(ran.seen["echo"]) == "grüß dich ✓"
    assert ran.seen["add"]["structuredContent"] == {"total": 42, "parts": [40, 2]}


def test_the_client_is_told_of_errors(ran):
    assert ran.seen["fail"]["isError"]
    assert text_of(ran.seen["fail"]) == "it always fails"
    assert ran.seen["unknown"]["code"] == -32602
    assert "plain__echo" in ran.seen["unknown"]["message"]


def test_the_client_runs_a_workflow(ran):
    assert value_of(ran.seen["workflow"])["status"] == "completed"
    assert (ran.folder / "notes.txt").read_text() == "total 42\n"


def test_the_client_hears_of_progress(ran):
    # The SDK drops what is read together with the answer, so the last one may be missing, also without a gateway.
    # A server that asks for roots just then has this client tell of progress of its own, which has no total.
    told = [(done, total) for done, total in ran.seen["progress"] if total is not None]
    assert told[:2] == [(1, 3), (2, 3)]
    assert "completed" in text_of(ran.seen["long"])


def test_the_client_takes_a_call_back_and_the_server_hears_of_it(ran):
    assert "changed my mind" in ran.seen["cancelled"]["message"]
    assert (ran.folder / "cancelled.txt").read_text() == "a wait was cancelled"
    assert text_of(ran.seen["after"]) == "still here"


def test_the_client_reads_resources(ran):
    assert {"pml://status", "demo://resource/static/document/startup.md"} <= set(ran.seen["resources"])
    assert "demo://resource/dynamic/text/{resourceId}" in ran.seen["templates"]
    assert {s["state"] for s in ran.seen["status"]["servers"]} == {"up"}
    assert ran.seen["read"]["contents"][0]["mimeType"] == "text/markdown"
    assert ran.seen["missing"]["code"] in (-32002, -32602)


def test_the_client_gets_prompts_and_completions(ran):
    assert "everything__args-prompt" in ran.seen["prompts"]
    assert ran.seen["prompt"]["messages"][0]["content"]["text"] == "What's weather in Bergen?"
    assert ran.seen["completion"]["completion"]["values"] == ["Sales", "Support"]


def test_the_client_answers_what_servers_ask(ran):
    assert ran.seen["asked"] == [["sampling", 9], ["elicitation", 13]]
    assert "twice a day" in text_of(ran.seen["sampling"])
    assert "Name: Ada" in text_of(ran.seen["elicitation"])
    assert "file:///srv/tides" in text_of(ran.seen["roots"])


def test_the_client_is_told_that_the_tools_have_changed(ran):
    assert {"lively__grown", "lively__grow", "plain__echo"} <= set(ran.seen["changed"])
