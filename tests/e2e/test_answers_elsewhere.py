"""Two gateways over HTTP on one store: a question that one asked is answered at the other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

SERVER = Path(__file__).with_name("servers") / "walls.py"
MODERN = "2026-07-28"
PLAN = {
    "tasks": [
        {"id": "first", "tool": "bank:pay", "arguments": {"to": "first"}},
        {"id": "second", "tool": "bank:pay", "arguments": {"to": "second"}, "depends_on": ["first"], "approve": True},
    ]
}
ABOUT = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}
PATIENCE_S = 120


@contextmanager
def gateway(folder, name):
    arguments = json.dumps([str(SERVER), str(folder / "paid.txt")])
    config = folder / f"{name}.toml"
    config.write_text(
        f'[gateway]\nstore = "sqlite"\n[plugins.sqlite]\npath = "{folder}/pml.db"\n'
        f"[servers.bank]\ncommand = {json.dumps(sys.executable)}\nargs = {arguments}\n"
    )
    log = folder / f"{name}.log"
    with log.open("w") as errors:
        command = [sys.executable, "-m", "pml_core", "serve", "--config", str(config), "--http", "127.0.0.1:0"]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PML_")}
        environment = {**kept, "PML_HOME": str(folder / "home")}
        process = subprocess.Popen(command, stderr=errors, cwd=folder, env=environment)
    try:
        until = time.monotonic() + PATIENCE_S
        while (found := re.search(r"serving MCP at (\S+)", log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        yield found[1]
    finally:
        process.terminate()
        process.wait()


def execute(url, **more):
    """What the gateway at ``url`` answers to the plan."""
    params = {"name": "execute_workflow", "arguments": {"workflow": PLAN}, "_meta": ABOUT, **more}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": "execute_workflow",
    }
    request = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            raw = answer.read().decode()
    except urllib.error.HTTPError as refused:
        raw = refused.read().decode()
    lines = [line.removeprefix("data: ") for line in raw.splitlines() if line.startswith(("data: {", "{"))]
    return json.loads(lines[-1])


def test_a_plan_whose_question_is_answered_at_another_gateway_goes_on_and_does_not_begin_anew(tmp_path):
    def paid():
        file = tmp_path / "paid.txt"
        return re.findall(r'"to":"(\w+)"', file.read_text().replace('": "', '":"')) if file.exists() else []

    with gateway(tmp_path, "one") as one, gateway(tmp_path, "two") as two:
        asked = execute(one)["result"]
        assert asked["resultType"] == "input_required", asked
        yes = {"action": "accept", "content": {"approve": True}}
        given = {
            "requestState": asked["requestState"],
            "inputResponses": dict.fromkeys(asked["inputRequests"], yes),
        }
        done = execute(two, **given)["result"]
        assert not done.get("isError"), done
        assert paid() == ["first", "second"]
        for url in (one, two):
            told = execute(url, **given)
            assert "this gateway did not give it out" in told["error"]["message"], told
        assert paid() == ["first", "second"]
