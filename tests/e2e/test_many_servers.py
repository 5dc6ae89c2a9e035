"""With many servers, a client gets its greeting before any of them is started, and then all of their tools."""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

MANY = 58
LEGACY, MODERN = "2025-11-25", "2026-07-28"
ABOUT = {"name": "test", "version": "1"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": ABOUT,
}
GREETINGS = {
    "initialize": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": ABOUT},
    "server/discover": {"_meta": ENVELOPE},
}
SOON_S = 300.0


class Gateway:
    """A gateway in a process of its own, asked one thing after the other."""

    def __init__(self, process):
        self._process, self._number = process, 0

    def ask(self, method, params):
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if (answer := json.loads(line)).get("id") == self._number and "method" not in answer:
                return answer["result"]
        raise AssertionError("the gateway ended without an answer")

    def children(self):
        """How many processes it has started that are there."""
        tasks = Path(f"/proc/{self._process.pid}/task").iterdir()
        return sum(len((task / "children").read_text().split()) for task in tasks)


@contextmanager
def serving(site, *options):
    command = site.serve("--mode", "full_proxy", *options)
    environment = {**os.environ, **site.environment}
    with site.log.open("w") as log, subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=site.folder, env=environment
    ) as process:  # fmt: skip
        yield Gateway(process)
        process.stdin.close()


@pytest.mark.skipif(not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="needs /proc")
@pytest.mark.parametrize("greeting", GREETINGS)
def test_no_server_runs_before_the_greeting_and_the_first_list_has_the_tools_of_all(site, greeting):
    site.configure(**{f"s{n}": site.plain() for n in range(MANY)})
    with serving(site) as gateway:
        assert gateway.ask("ping", {}) == {}  # it is up
        assert gateway.children() == 0
        assert gateway.ask(greeting, GREETINGS[greeting])["capabilities"]["tools"]
        about = {"_meta": ENVELOPE} if greeting == "server/discover" else {}
        listed = gateway.ask("tools/list", about)["tools"]
    assert len(listed) == 3 * MANY
    assert len(list(site.pids.iterdir())) == MANY


def test_servers_that_wait_for_something_else_start_side_by_side(site, tmp_path):
    """Each waits until all others run: one after the other, none would ever be up."""
    code = (
        "import os,sys,time\n"
        "folder,n=sys.argv[1],int(sys.argv[2])\n"
        "open(os.path.join(folder,str(os.getpid())),'w').close()\n"
        "while len(os.listdir(folder))<n: time.sleep(0.05)\n"
        "os.execv(sys.argv[3], sys.argv[3:])\n"
    )
    together = tmp_path / "together"
    together.mkdir()
    python, *rest = site.plain()
    number = 12
    servers = {f"s{n}": [python, "-c", code, str(together), str(number), python, *rest] for n in range(number)}
    site.configure(**servers)
    limits = ("--set", f"gateway.list_wait_s={SOON_S}", "--set", f"gateway.start_timeout_s={SOON_S}")
    began_s = time.monotonic()
    with serving(site, *limits) as gateway:
        gateway.ask("initialize", GREETINGS["initialize"])
        assert len(gateway.ask("tools/list", {})["tools"]) == 3 * number
    assert time.monotonic() - began_s < SOON_S
