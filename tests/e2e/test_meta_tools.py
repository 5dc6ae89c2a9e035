"""What every conversation pays for: the meta-tools' definitions."""

from __future__ import annotations

import json
import os
import subprocess

MOST_TOKENS = 400
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
MESSAGES = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


def listed(site):
    """The bytes that answer ``tools/list``, from a gateway of its own."""
    environment = {**os.environ, **site.environment}
    with (
        site.log.open("a") as log,
        subprocess.Popen(
            site.serve(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=site.folder, env=environment
        ) as process,
    ):
        for message in MESSAGES:
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        answers = [process.stdout.readline() for _ in range(2)]
        process.stdin.close()
        assert process.wait(20) == 0
    (answer,) = (line for line in answers if json.loads(line)["id"] == 2)
    return answer


def test_the_meta_tools_together_cost_at_most_four_hundred_tokens(site):
    tools = json.loads(listed(site))["result"]["tools"]
    assert len(tools) == 3
    tokens = len(json.dumps(tools, ensure_ascii=False, separators=(",", ":")).encode()) / 4
    assert tokens <= MOST_TOKENS


def test_the_list_is_the_same_byte_for_byte_on_every_start(site):
    assert listed(site) == listed(site)
