"""What one ``tools/call`` passes and what is imported before the greeting, with every plugin installed: work, not time.

A gateway of its own serves a client over stdio, in front of a server that does nothing. What happens once for several
calls, or now and then, is not on the way of a call; the profiler counts on the thread of the loop only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from conftest import Budgets

AT_ONCE = 16
"""Calls in flight. All of them, and all answers, fit into one piece of a pipe: each end reads them at once, on any
machine, and what a store does beside them is done far less often than a call."""
WARM, COUNTED = 5 * AT_ONCE, 20 * AT_ONCE
ALWAYS = 0.9
"""Share of the calls that a function has to be called in to be on the way: a batch of the store counts for one."""
COUNTING = """
import json, os, re, signal, sys
from collections import Counter

FILE = re.compile(r".*/(pml_\\w+(?:/\\w+)+\\.py)")
counts, at_greeting = Counter(), []

def count(frame, event, argument):
    if event == "call":
        counts[frame.f_code] += 1

def seen(write):
    def writes(fd, data):
        if not at_greeting and b'"serverInfo"' in (data if isinstance(data, bytes) else b"".join(data)):
            at_greeting.extend(sys.modules)
        return write(fd, data)
    return writes

os.write, os.writev = seen(os.write), seen(os.writev)
signal.signal(signal.SIGUSR1, lambda *_: sys.setprofile(count))
from pml_core.cli import main
try:
    main(sys.argv[2:])
finally:
    sys.setprofile(None)
    found = [(FILE.fullmatch(code.co_filename), code, times) for code, times in counts.items()]
    rows = [(file[1], code.co_qualname, code.co_flags & 0x80, times) for file, code, times in found if file]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"rows": rows, "modules": at_greeting}, file)
"""
SERVER = """
import json, os, sys, time

info = {"name": "here", "version": "1"}
answers = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info},
    "tools/list": {"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "hello"}]},
    "ping": {},
}
waiting = []
for line in sys.stdin:
    asked = json.loads(line)
    while asked["method"] == "tools/list" and not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
    if "id" in asked and asked["method"] in answers:
        waiting.append(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers[asked["method"]]}) + "\\n")
        if asked["method"] != "tools/call" or len(waiting) == int(sys.argv[1]):
            sys.stdout.write("".join(waiting))
            sys.stdout.flush()
            waiting.clear()
"""


class CalledFunction(NamedTuple):
    """A function on the way of a call."""

    file: str
    """From the package on."""
    name: str
    coroutine: bool
    times: int
    """How often in one call."""


class Measurement(NamedTuple):
    """What a gateway did."""

    way: Sequence[CalledFunction]
    modules: Sequence[str]
    """Imported before the greeting."""


class Client:
    """Speaks MCP with a process, by several requests at once."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._sink, self._source, self._asked = process.stdin, process.stdout, 0

    def ask(self, method: str, params: Mapping[str, Any], times: int = 1) -> None:
        """Send a request so many times in one piece, and wait for all answers."""
        numbers = range(self._asked, self._asked + times)
        self._asked += times
        texts = [json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": params}) for n in numbers]
        self._sink.write("".join(f"{text}\n" for text in texts).encode())
        self._sink.flush()
        waited = {*numbers}
        while waited:
            line = self._source.readline()
            assert line, "the gateway has ended"
            answer = json.loads(line)
            assert "error" not in answer, answer
            waited.discard(answer.get("id", -1))


@contextmanager
def gateway(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """``pml serve`` in front of one server; ended by its client's leaving, it has written down what it did."""
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    args = [str(folder / "server.py"), str(AT_ONCE), str(folder / "greeted")]
    server = f'servers.here={{command="{sys.executable}", args={json.dumps(args)}}}'
    command = [sys.executable, "-c", COUNTING, str(folder / "counted.json"), "serve"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    with subprocess.Popen(
        [*command, "--set", server, "--set", "gateway.log_level=error"],
        cwd=folder,
        env=env | {"PML_HOME": str(folder / "home")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measurement:
    folder = tmp_path_factory.mktemp("counted")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    call = {"name": "here__greet", "arguments": {}}
    with gateway(folder) as process:
        client = Client(process)
        client.ask("initialize", hello)
        # Only now the server says what it has: what is imported for that would be counted or not, as it comes.
        (folder / "greeted").touch()
        client.ask("tools/list", {})
        for _ in range(0, WARM, AT_ONCE):
            client.ask("tools/call", call, AT_ONCE)
        process.send_signal(signal.SIGUSR1)
        for _ in range(0, COUNTED, AT_ONCE):
            client.ask("tools/call", call, AT_ONCE)
    assert process.returncode == 0
    told = json.loads((folder / "counted.json").read_text(encoding="utf-8"))
    way = [
        CalledFunction(file, name, bool(coroutine), round(times / COUNTED))
        for file, name, coroutine, times in told["rows"]
        # Comprehensions are functions in some versions of Python only.
        if times >= ALWAYS * COUNTED and not name.endswith(">")
    ]
    return Measurement(way, told["modules"])


def test_a_call_passes_no_more_files_and_functions_than_noted(measured: Measurement, budgets: Budgets) -> None:
    assert {"pml_core/kernel/dispatch.py", "pml_kit/jsonrpc/lines.py"} <= {one.file for one in measured.way}
    budgets.hold("call_files", len({one.file for one in measured.way}))
    budgets.hold("call_functions", len(measured.way))
    budgets.hold("call_coroutines", sum(one.coroutine for one in measured.way))


def test_a_call_makes_no_more_work_than_noted(measured: Measurement, budgets: Budgets) -> None:
    budgets.hold("call_work", sum(one.times for one in measured.way))


def test_no_more_is_imported_before_the_greeting_than_noted(measured: Measurement, budgets: Budgets) -> None:
    budgets.hold("greeting_modules", len([name for name in measured.modules if name.startswith("pml_")]))
