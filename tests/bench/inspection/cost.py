"""What inspection takes: of a processor, for definitions and for calls, beside the same without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from pml_inspection.definitions import DefinitionInspector
from pml_inspection.settings import Settings
from pml_testing.fakes import FakeServices

ROUNDS = 9
RESULT = "The weather in Oslo is sunny, with a light wind from the west and 21 degrees; tomorrow is much the same. " * 8

SERVER = f"""
import json, sys

answers = {{
    "initialize": {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}},
                   "serverInfo": {{"name": "s", "version": "1"}}}},
    "tools/list": {{"tools": [{{"name": "read", "inputSchema": {{"type": "object"}}}}]}},
    "tools/call": {{"content": [{{"type": "text", "text": {RESULT!r}}}]}},
    "ping": {{}},
}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and asked["method"] in answers:
        print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": answers[asked["method"]]}}), flush=True)
"""


def per_definition(definitions: list[tuple[str, dict[str, Any]]]) -> str:
    """A sentence: how long it takes to look at so many definitions, beside reading them as JSON."""
    from pml_catalog.live import make_entry

    reading, looking = [], []
    raws = [json.dumps(shape).encode() for _, shape in definitions]
    for _ in range(ROUNDS):
        start = time.process_time()
        for raw in raws:
            json.loads(raw)
        reading.append(time.process_time() - start)
        inspector = DefinitionInspector(FakeServices(), Settings())
        entries = [make_entry(name, {**shape, "name": shape["name"] or "x"}) for name, shape in definitions]
        start = time.process_time()
        for entry in entries:
            inspector(entry)
        looking.append(time.process_time() - start)
    count, size = len(definitions), sum(map(len, raws)) // 1024
    return (
        f"{count} definitions ({size} KiB) are looked at in {min(looking) * 1e3:.0f} ms of a processor, "
        f"{min(looking) / min(reading):.1f} times what reading them as JSON takes ({min(reading) * 1e3:.0f} ms)."
    )


class ServeProcess:
    """``pml serve`` with every plugin that is installed, in front of one server; its processor time is the kernel's."""

    def __init__(self, folder: Path, *, inspected: bool) -> None:
        (folder / "server.py").write_text(SERVER, encoding="utf-8")
        server = f'servers.s={{command="{sys.executable}", args=["{folder / "server.py"}"]}}'
        command = [sys.executable, "-m", "pml_core", "serve", "--set", server, "--set", "gateway.log_level=error"]
        off = [] if inspected else ["--set", 'gateway.block=["inspection"]']
        env = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
        self._process = subprocess.Popen(
            [*command, *off],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**env, "PML_HOME": str(folder / "home")},
        )
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask("initialize", hello)

    def ask(self, method: str, params: dict[str, Any]) -> None:
        """One request, and the wait for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        text = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        self._process.stdin.write(text.encode() + b"\n")
        self._process.stdin.flush()
        while json.loads(self._process.stdout.readline()).get("id") != 1:
            pass

    def spent_s(self) -> float:
        """Of a processor, so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def per_call_s(self, calls: int) -> float:
        """Of a processor, by so many calls."""
        before = self.spent_s()
        for _ in range(calls):
            self.ask("tools/call", {"name": "s__read", "arguments": {}})
        return (self.spent_s() - before) / calls

    def close(self) -> None:
        """End it by leaving."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def per_call(calls: int) -> str:
    """A sentence: what a call takes with and without, the two measured in turn."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        both = [ServeProcess(Path(one), inspected=False), ServeProcess(Path(other), inspected=True)]
        for served in both:
            served.per_call_s(300)
        pairs = [[served.per_call_s(calls) for served in both] for _ in range(ROUNDS)]
        for served in both:
            served.close()
    without, inspected = (min(column) for column in zip(*pairs, strict=True))
    ratio = median(one[1] / one[0] for one in pairs)
    return (
        f"With all plugins a call with a result of {len(RESULT)} bytes takes {inspected * 1e6:.0f} µs of a processor "
        f"with inspection and {without * 1e6:.0f} µs without; "
        f"the median of {len(pairs)} pairs is {(ratio - 1) * 100:+.1f} %."
    )
