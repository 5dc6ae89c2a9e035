"""A client that has been here before gets its tools at once, whatever its servers do."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

LATE_S = 600
"""How late the slow server is, which nobody waits for."""
SOON_S = 60.0
"""Longest until the list is there, on a machine that does much else. docs/performance.md has what it takes."""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
FIRST = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
]


def listed(site, folder):
    """Names of the tools that a new gateway lists, and how long that took from the start of its process [s]."""
    started = time.perf_counter()
    command = site.serve("--mode", "full_proxy")
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder,
        env=site.environment,
    ) as gateway:  # fmt: skip
        gateway.stdin.write("".join(json.dumps(message) + "\n" for message in FIRST).encode())
        gateway.stdin.flush()
        for line in gateway.stdout:
            message = json.loads(line)
            if message.get("id") == 2:
                took_s = time.perf_counter() - started
                gateway.stdin.close()
                return sorted(tool["name"] for tool in message["result"]["tools"]), took_s
    raise AssertionError("the gateway ended without an answer")


@pytest.mark.parametrize("now", ["late", "never"])
def test_the_list_of_last_time_does_not_wait_for_a_server_that_is_late_or_never_comes(site, tmp_path, now):
    mark = tmp_path / "slow"
    code = (
        "import os,sys,time\n"
        f"if os.path.exists({str(mark)!r}): time.sleep({LATE_S if now == 'late' else 3600})\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    site.configure(plain=[sys.executable, "-c", code, *site.plain()])
    first, _ = listed(site, tmp_path)
    assert "plain__echo" in first
    mark.touch()
    again, took_s = listed(site, tmp_path)
    assert again == first
    assert took_s < SOON_S
