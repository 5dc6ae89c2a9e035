"""A gateway in a process of its own, with keys, which several people talk to over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx2

from pml_access import plugin
from pml_kit.mcp.protocol import META_CLIENT_CAPABILITIES, META_CLIENT_INFO, META_PROTOCOL_VERSION
from pml_store_sqlite import Settings, SqliteStore
from pml_testing.fakes import FakeServices

MODERN = "2026-07-28"
SERVING = "serving MCP at "
START_S, PATIENCE_S, POLL_S = 120.0, 120.0, 0.05
ABOUT = {"name": "client", "version": "1"}
SCRIPT = """
import json, os, sys
{before}
def answer(arguments):
    {answer}
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message:
        continue
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "scripted", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}}
                            for name in sys.argv[1:]]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": answer(params.get("arguments", {}))}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def script(answer, before=""):
    """A server with the tools that it is told, whose calls are answered by the lines ``answer``."""
    return SCRIPT.replace("{before}", before).replace("{answer}", answer.replace("\n", "\n    "))


SERVER = script('return f"answered {json.dumps(arguments)}"')
"""Each of its tools says what it was given."""
OWN = frozenset({"pml://status", "pml://guide/workflows", "guide_workflows"})
"""Resources and prompts of the gateway's own, which everybody may have."""


def others(answer):
    """What a list of resources or prompts has of servers."""
    (entries,) = [value for value in answer["result"].values() if isinstance(value, list)]
    return sorted({one.get("uri", one["name"]) for one in entries} - OWN)


class Gate:
    """One gateway, its folder, and the keys to it."""

    def __init__(self, folder, configuration=""):
        self.folder, self.url = folder, ""
        self.log = folder / "gateway.log"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
        self.environment = {**kept, "PML_HOME": str(folder / "home"), "COLUMNS": "200"}
        self.config = folder / "gate.toml"
        self.config.write_text(configuration)
        (folder / "server.py").write_text(SERVER)

    def server(self, name, *tools, **more):
        """Add a server to the configuration; with a ``script``, one that runs this."""
        own = more.pop("script", None)
        command = ["-c", own, *tools] if own else [str(self.folder / "server.py"), *tools]
        lines = [f"[servers.{name}]", f"command = {json.dumps(sys.executable)}", f"args = {json.dumps(command)}"]
        lines += [f"{option} = {json.dumps(value)}" for option, value in more.items()]
        self.config.write_text(self.config.read_text() + "\n" + "\n".join(lines) + "\n")

    def pml(self, *words):
        """A command; what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "pml_core", *words, "--config", str(self.config)],
            capture_output=True, check=False, cwd=self.folder, encoding="utf-8", env=self.environment,
            timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def keys(self, *words):
        """What ``pml keys`` prints, run in this process: starting another takes longer than the rest of a test."""
        parser = argparse.ArgumentParser()
        plugin.pml_commands(parser.add_subparsers())
        arguments = parser.parse_args(["keys", *words])

        async def run():
            async with SqliteStore(Settings(path=str(self.folder / "home" / "pml.db"))) as store:
                return await arguments.run_with(arguments, FakeServices("access", store=store))

        with contextlib.redirect_stdout(io.StringIO()) as said:
            assert asyncio.run(run()) == 0
        return said.getvalue()

    def key(self, *words):
        """A new key."""
        return json.loads(self.keys("create", *words, "--json"))["key"]

    @contextmanager
    def serving(self):
        """Serve while entered."""
        command = [sys.executable, "-m", "pml_core", "serve", "--http", "127.0.0.1:0", "--config", str(self.config)]
        with self.log.open("w") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stderr=log
            )
        try:
            until_s = time.monotonic() + START_S
            while SERVING not in (said := self.log.read_text()):
                assert process.poll() is None, said
                assert time.monotonic() < until_s, said
                time.sleep(POLL_S)
            self.pid = process.pid
            self.url = said.partition(SERVING)[2].split()[0].removesuffix("/mcp")
            yield self
        finally:
            process.terminate()
            process.wait(PATIENCE_S)

    def caller(self, key="", path="/mcp", **about):
        return Caller(self.url, key, {**ABOUT, **about}, path)


class Caller:
    """One who asks over HTTP."""

    def __init__(self, url, key, about, path="/mcp"):
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._http = httpx2.Client(base_url=url, headers=headers, timeout=PATIENCE_S)
        self._asked, self._about, self._path = 0, about, path

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._http.close()

    def ask(self, method, capabilities=None, meta=None, **params):
        """Any request of MCP, with more in its ``_meta`` if that is wanted; the whole answer without its id."""
        self._asked += 1
        meta = {
            META_PROTOCOL_VERSION: MODERN,
            META_CLIENT_CAPABILITIES: capabilities or {},
            META_CLIENT_INFO: self._about,
            **(meta or {}),
        }
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": method,
        }
        if name := params.get("name", params.get("uri", params.get("taskId"))):
            headers["mcp-name"] = name
        message = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": {**params, "_meta": meta}}
        response = self._http.post(self._path, json=message, headers=headers)
        answer = json.loads(response.text.rpartition("data: ")[2])  # the last event, where there were notifications
        answer.pop("id", None)
        return answer

    def call(self, name, **arguments):
        """The answer to a call of a tool."""
        return self.ask("tools/call", name=name, arguments=arguments)

    def text(self, name, **arguments):
        """The text of a call's result, or of why it was refused."""
        answer = self.call(name, **arguments)
        return answer["error"]["message"] if "error" in answer else answer["result"]["content"][0]["text"]

    def status(self):
        """What ``pml://status`` says."""
        return json.loads(self.ask("resources/read", uri="pml://status")["result"]["contents"][0]["text"])

    def get(self, path, **query):
        """Status and body of a route."""
        response = self._http.get(path, params=query)
        return response.status_code, response.json()

    def post(self, path, **sent):
        """Status and body of what is sent to a route."""
        response = self._http.post(path, **sent)
        return response.status_code, response.json()
