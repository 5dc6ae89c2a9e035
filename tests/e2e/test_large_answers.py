"""Answers of 1 kB to 50 MB of servers that people use: the same through the gateway, or previews, and all stored."""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import contextmanager, suppress
from hashlib import sha256

import pytest

from . import raw_gateway
from .large_answers import ALL, SIZES, pages
from .visit import Visitor, beyond_gateway, configuration, connected, of_no_era, serve

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]
PREVIEW_TOKENS = 200
MOST_OF_A_PREVIEW = 4_000
"""Characters of a preview of so many tokens."""
PLUGINS = {
    "approvals": {"effects": "none"},
    "results": {
        "budget_tokens": PREVIEW_TOKENS,
        "declared": "refuse",
        "tools": {"pml:read_result": 4_000_000},
    },
}
WITH_THE_SDK = ("1 kB", "100 kB", "1 MB", "10 MB")
"""Its client joins what it has of a line with each 64 kB that come: 50 MB take it half a minute of a processor."""
INSPECTED = SIZES["1 MB"]
"""The Inspector reads no message of more than 10 MiB, whoever sends it."""
INSPECT_S = 900
PATIENCE = ("--connect-timeout", "300000")
"""Of the Inspector, which gives a server half a minute to start, on a machine that has much else to do."""


@pytest.fixture(scope="module")
def site():
    with pages() as address:
        yield address


@pytest.fixture(params=ALL)
def asked(request, node_tools, python_servers, site, tmp_path):
    """One server, and its calls by size; what no call of it can answer is left out."""
    made = ALL[request.param](node_tools, python_servers, tmp_path, site)
    calls = {
        name: call for name, size in SIZES.items() if name in WITH_THE_SDK and (call := made.of_size(size)) is not None
    }
    return made.server, calls


def digest(text):
    return len(text), sha256(text.encode()).hexdigest()


def text_of(answer):
    """What a model reads of an answer."""
    return "".join(block["text"] for block in answer["result"]["content"] if block["type"] == "text")


async def answered(visitor, call):
    """An answer as it came, which is not kept."""
    await visitor.call(call.tool, call.arguments)
    visitor.outcomes.clear()
    return of_no_era(visitor.witness.answers["tools/call"].pop())


async def directly(server, calls, folder):
    """Digests of the whole answers and of their texts, by size."""
    async with connected(server.command, server.env, folder, "legacy") as (client, witness):
        visitor, found = Visitor(client, witness), {}
        for size, call in calls.items():
            answer = await answered(visitor, call)
            assert not answer["result"].get("isError"), text_of(answer)[:500]
            found[size] = digest(json.dumps(answer)), digest(text_of(answer))
        return found


async def test_they_are_the_same_through_the_gateway(asked, tmp_path):
    server, calls = asked
    direct = await directly(server, calls, tmp_path)
    for size, (_, (length, _)) in direct.items():
        assert 0.8 * SIZES[size] <= length <= 1.5 * SIZES[size] + 1000, size
    tree = configuration(server, tools_exposure="full_proxy")
    async with beyond_gateway(tmp_path, "legacy", tree) as (client, witness):
        visitor = Visitor(client, witness, server.name)
        for size, call in calls.items():
            assert digest(json.dumps(await answered(visitor, call))) == direct[size][0], size


async def test_they_are_previews_and_all_of_them_can_be_read(asked, tmp_path):
    server, calls = asked
    direct = await directly(server, calls, tmp_path)
    tree = configuration(server, tools_exposure="meta_only") | {"plugins": PLUGINS}
    async with beyond_gateway(tmp_path, "legacy", tree) as (client, witness):
        visitor = Visitor(client, witness, server.name, wrapped=True)
        for size, call in calls.items():
            result = (await answered(visitor, call))["result"]
            id, (preview, link) = result["_meta"]["pml/result"]["id"], result["content"] + [None] * call.declared
            assert bool(result.get("isError")) is call.declared
            assert id in preview["text"]
            assert len(preview["text"]) <= MOST_OF_A_PREVIEW
            assert link is None or link["uri"] == f"pml://results/{id}"
            stored = (await client.read_resource(f"pml://results/{id}")).contents[0].text
            assert digest(json.loads(stored)["text"] if call.declared else stored) == direct[size][1], size
            del stored
            read = await read_in_pages(client, id, "text" if call.declared else "")
            assert digest(read) == direct[size][1], size


async def read_in_pages(client, id, path):
    """All of a stored result, by ``read_result``."""
    parts, number, pages = [], 1, 1
    while number <= pages:
        given = {"id": id, "page": number, **({"path": path} if path else {})}
        answer = await client.call_tool("call_tool", {"name": "read_result", "arguments": given})
        (block,) = answer.content
        assert not answer.is_error, block.text[:500]
        part = block.text
        if head := re.match(r"Page \d+ of (\d+):\n", part):
            pages, part = int(head[1]), part[head.end() :]
        parts.append(part)
        number += 1
    return "".join(parts)


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
async def test_other_modes_have_previews_too(node_tools, python_servers, site, tmp_path, mode):
    made = ALL["sqlite"](node_tools, python_servers, tmp_path, site)
    tree = configuration(made.server, tools_exposure=mode) | {"plugins": PLUGINS}
    async with beyond_gateway(tmp_path, "legacy", tree) as (client, witness):
        visitor = Visitor(client, witness, made.server.name)
        answer = await answered(visitor, made.of_size(SIZES["100 kB"]))
        assert answer["result"]["_meta"]["pml/result"]["id"] in text_of(answer)
        assert len(text_of(answer)) <= MOST_OF_A_PREVIEW


# 50 MB, with a client that reads whole lines


class Client(raw_gateway.Client):
    """One that waits long enough for 100 MB on a machine that has much else to do."""

    def next_message(self, within_s=600.0):
        return super().next_message(within_s)


@contextmanager
def talking(command, environment, folder):
    """A client of the process that a command starts."""
    with (folder / "stderr.log").open("a") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            encoding="utf-8",
            cwd=folder,
            env={**os.environ, **environment},
        )
    client = Client(process)
    try:
        about = {"name": "reader", "version": "1"}
        client.ask("initialize", protocolVersion=raw_gateway.LEGACY, capabilities={}, clientInfo=about)
        client.write('{"jsonrpc":"2.0","method":"notifications/initialized"}')
        yield client
    finally:
        process.kill()
        process.wait(raw_gateway.PATIENCE_S)
        client.reader.join(raw_gateway.PATIENCE_S)
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()


@pytest.mark.parametrize("name", [name for name in ALL if name != "fetch"])
def test_50_mb_are_the_same_and_can_be_read(node_tools, python_servers, site, tmp_path, name):
    made = ALL[name](node_tools, python_servers, tmp_path, site)
    server, call = made.server, made.of_size(SIZES["50 MB"])
    home = {"PML_HOME": str(tmp_path / "home")}
    with talking(server.command, server.env, tmp_path) as client:
        answer = client.call(call.tool, **call.arguments)
        assert not answer["result"].get("isError"), text_of(answer)[:500]
        direct = digest(json.dumps(answer["result"])), digest(text_of(answer))
    gateway = serve(configuration(server, tools_exposure="full_proxy"), tmp_path)
    with talking(gateway, home, tmp_path) as client:
        answer = client.call(f"{server.name}__{call.tool}", **call.arguments)
        assert digest(json.dumps(answer["result"])) == direct[0]
    gateway = serve(configuration(server, tools_exposure="meta_only") | {"plugins": PLUGINS}, tmp_path)
    with talking(gateway, home, tmp_path) as client:
        answer = client.call("call_tool", name=f"{server.name}:{call.tool}", arguments=call.arguments)
        assert len(text_of(answer)) <= MOST_OF_A_PREVIEW
        uri = f"pml://results/{answer['result']['_meta']['pml/result']['id']}"
        stored = client.ask("resources/read", uri=uri)["result"]["contents"][0]["text"]
        assert digest(json.loads(stored)["text"] if call.declared else stored) == direct[1]


# The Inspector, as people run it in CI


class Inspector:
    """Runs its command line in a folder, and gives what it prints, decoded."""

    def __init__(self, node, folder):
        self._program = [str(node / "node"), str(node / "node_modules" / ".bin" / "mcp-inspector"), "--cli"]
        self._folder = folder

    def __call__(self, command, environment, *options):
        program, *arguments = command
        file = self._folder / "inspector.json"
        entry = {"command": program, "args": arguments, "env": dict(environment)}
        file.write_text(json.dumps({"mcpServers": {"one": entry}}))
        own = {**os.environ, "HOME": str(self._folder), "MCP_INSPECTOR_SECRET_STORE": "memory"}
        words = [*self._program, "--config", str(file), "--server", "one", *PATIENCE, *options]
        ran = subprocess.run(
            words, capture_output=True, timeout=INSPECT_S, check=False, cwd=self._folder, env=own
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr.decode()[-2000:]
        return json.loads(ran.stdout)

    def call(self, command, environment, tool, arguments):
        """The result of a call."""
        options = ["--tool-name", tool, "--tool-args-json", json.dumps(arguments)]
        return self(command, environment, "--method", "tools/call", *options)


@pytest.mark.parametrize("name", ALL)
def test_the_inspector_gets_them_and_reads_what_is_stored(node_tools, python_servers, site, tmp_path, name):
    made, inspect = ALL[name](node_tools, python_servers, tmp_path, site), Inspector(node_tools, tmp_path)
    server, call = made.server, made.of_size(INSPECTED)
    home = {"PML_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    direct = inspect.call(server.command, {"PATH": os.environ["PATH"], **server.env}, call.tool, call.arguments)
    gateway = serve(configuration(server, tools_exposure="full_proxy"), tmp_path)
    assert inspect.call(gateway, home, f"{server.name}__{call.tool}", call.arguments) == direct
    if call.declared:  # what is told in place of it is an error, with which the Inspector ends
        return
    gateway = serve(configuration(server, tools_exposure="meta_only") | {"plugins": PLUGINS}, tmp_path)
    wrapped = {"name": f"{server.name}:{call.tool}", "arguments": dict(call.arguments)}
    preview = inspect.call(gateway, home, "call_tool", wrapped)
    uri = f"pml://results/{preview['_meta']['pml/result']['id']}"
    stored = inspect(gateway, home, "--method", "resources/read", "--uri", uri)["contents"][0]["text"]
    assert stored == direct["content"][0]["text"]
