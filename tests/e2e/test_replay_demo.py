"""A session with the demo's servers, recorded and replayed: the client gets the same bytes.

The servers are those of ``pml demo`` that come from PyPI (time, git, sqlite), on its repository and its database, and
the session has its plan. What the demo does besides (search, rehearsal, history) reaches no server. Its servers that
come from npm are left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client, types

from pml_demo import plan
from pml_demo.materials import Materials, look, make_files, make_repository
from pml_demo.servers import GIT, SQLITE, TIME, configuration

PML = str(Path(sys.executable).with_name("pml"))
ANSWER_S, EXPORT_S = 120.0, 120.0
NUMBER = re.compile(rb'^\{"jsonrpc":"2\.0","id":\d+,')
"""What the client numbered its request by."""
EXECUTION = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""The id of an execution, a UUID of version 7."""
TOOK = re.compile(rb'(\\?"(?:total_)?duration_ms\\?": ?)\d+')
"""How long the gateway took for a task or a plan."""

REPOSITORY = "the demo's repository"
CALLS = [
    ("time__get_current_time", {"timezone": "UTC"}),
    ("time__convert_time", {"source_timezone": "UTC", "time": "12:30", "target_timezone": "Asia/Tokyo"}),
    ("time__get_current_time", {"timezone": "UTC"}),
    ("time__get_current_time", {"timezone": "Mars/Olympus"}),
    ("git__git_log", {"repo_path": REPOSITORY, "max_count": 2}),
    ("git__git_status", {"repo_path": REPOSITORY}),
    ("git__git_show", {"repo_path": REPOSITORY, "revision": "no-such-revision"}),
    ("sqlite__list_tables", {}),
    ("sqlite__describe_table", {"table_name": "readings"}),
    ("sqlite__read_query", {"query": "SELECT * FROM readings"}),
    ("sqlite__write_query", {"query": "INSERT INTO readings VALUES ('2026-01-07', 20.25)"}),
    ("sqlite__read_query", {"query": "SELECT * FROM readings"}),
    ("sqlite__read_query", {"query": "SELECT * FROM nothing"}),
]
"""Reads and writes; the same call twice, with another answer; errors."""


@dataclass
class Session:
    """What one client got."""

    answers: list[bytes]
    """To its calls, in order, as they came over the pipe."""
    tools: dict[str, dict]


@pytest.fixture
def materials(tmp_path):
    made = Materials(tmp_path)
    make_files(made)
    asyncio.run(make_repository(made))
    return made


@pytest.fixture
def environment(materials):
    return {"PML_HOME": str(materials.home), "PATH": os.environ["PATH"]}


def calls(materials):
    """The calls of a session: one by one, and then as the demo's plan."""
    for name, given in CALLS:
        yield name, {k: str(materials.repository) if v is REPOSITORY else v for k, v in given.items()}
    yield "execute_workflow", {**plan.workflow(materials, with_git=True), "dry_run": False}


def session(command, materials, environment, mode):
    """Of a client of the official SDK with the server that ``command`` starts; ``tee`` keeps what passes."""
    passed = materials.folder / "passed"
    piped = f"{shlex.join(command)} | tee {shlex.quote(str(passed))}"
    parameters = StdioServerParameters(command="sh", args=["-c", piped], env=environment, cwd=materials.folder)
    asked = list(calls(materials))

    async def visit(log):
        transport = stdio_client(parameters, errlog=log)
        async with Client(transport, mode=mode, read_timeout_seconds=ANSWER_S, cache=None) as client:
            listed = (await client.list_tools()).tools
            for name, arguments in asked:
                params = types.CallToolRequestParams(name=name, arguments=arguments)
                with suppress(MCPError):
                    await client.session.send_request(types.CallToolRequest(params=params), types.CallToolResult)
        return {tool.name: tool.model_dump(exclude_unset=True) for tool in listed}

    with (materials.folder / "log").open("a") as log:
        tools = asyncio.run(visit(log))
    messages = [(json.loads(line), line) for line in passed.read_bytes().splitlines()]
    answers = [line for message, line in messages if "id" in message and "method" not in message]
    return Session(answers[-len(asked) :], tools)


def normal(answer):
    """Without ids and times of the gateway's own; those that servers tell are left."""
    answer, numbered = NUMBER.subn(b'{"jsonrpc":"2.0","id":ID,', answer)
    assert numbered == 1
    return TOOK.sub(rb"\1TIME", EXECUTION.sub(b"EXECUTION", answer))


def text_of(answer):
    return json.loads(answer)["result"]["content"][0]["text"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_replay_of_the_demo_is_equal_byte_by_byte(materials, environment, python_servers, mode):
    folders = {s.environment: Path(python_servers[s.name]).parent.parent for s in (TIME, GIT, SQLITE)}
    materials.config.write_text(json.dumps(configuration((TIME, GIT, SQLITE), folders, materials)))
    configured = ["--config", str(materials.config)]
    serve = [PML, "serve", *configured, "--mode", "full_proxy"]
    recorded = session(serve, materials, environment, mode)
    traces = look(materials)
    assert json.loads(text_of(recorded.answers[-1]))["status"] == "completed"

    file = materials.folder / "session.jsonl"
    export = [PML, "recordings", "export", str(file), *configured]
    subprocess.run(export, check=True, env=environment, timeout=EXPORT_S, stdout=subprocess.DEVNULL)
    materials.config.unlink()
    replay = [PML, "replay", str(file), "--prefix", "--strict"]
    replayed = session(replay, materials, environment, mode)

    assert [normal(answer) for answer in replayed.answers] == [normal(answer) for answer in recorded.answers]
    assert all(definition == recorded.tools[name] for name, definition in replayed.tools.items())
    assert replayed.tools.keys() >= {name for name, _ in CALLS}
    assert look(materials) == traces
