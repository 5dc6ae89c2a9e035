"""What the framework adds to a call for each plugin that does nothing.

    .venv/bin/python tests/bench/plugin_overhead.py [--calls 1000] [--rounds 31]

Each by itself, in this process, with a call that waits once as for a server's answer: an empty wrapper, and ten
wrappers and ten tracers more than the two that there are anyway. Then the whole of a call through ``pml serve`` as it
is installed, with and without these twenty: processor time of its process, client and server over stdio in processes
of their own. Variants take turns in many short rounds. The fastest quarter of each counts, because whatever else the
machine does only adds; the median of the rounds' differences and the distance of its quartiles tell the noise.

Exit status 1 when a limit is missed: 1 us for the wrapper, 10 % of the call for what the twenty take by themselves. The
difference of the two gateways has to agree, but its noise is larger than what is to be found on any machine that does
something else meanwhile. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from pml_core.kernel.chain import NamedWrapper, fold
from pml_core.kernel.tracing import NamedTracer, Tracing
from pml_hookspecs import CallNext, Outcome, Phase, Run, Status, Task, ToolCall, ToolId
from pml_testing.fakes import FakeLog, FakeRun, outcome

WRAPPER_LIMIT_US = 1.0
TOGETHER_LIMIT = 0.10
EACH = 10
AT_ONCE = 8
CHAIN_CALLS = 20_000
TRACERS = tuple(f"deaf{n}" for n in range(EACH))
TWENTY = """
from pml_hookspecs import Phase, hookimpl

class Deaf:
    def __init__(self, settings, services): ...
    def started(self, span): ...
    def ended(self, ended): ...
    async def flush(self): ...

class Empty:
    phase = Phase.OBSERVE
    async def __call__(self, task, run, call_next):
        return await call_next(task, run)

def hook():
    return hookimpl(lambda services: [Empty()])
"""
SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "echo", "version": "1"}}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    else:
        result = {"content": [{"type": "text", "text": "done"}]}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\\n")
    sys.stdout.flush()
"""


class Empty:
    """A wrapper that does nothing, written as most are."""

    phase = Phase.OBSERVE

    async def __call__(self, task: Task, run: Run, call_next: CallNext) -> Outcome:
        return await call_next(task, run)


class Passing:
    """One that only looks, as the contract has it for those in a hurry."""

    phase = Phase.OBSERVE

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        return call_next(task, run)


def _fast(times: Sequence[float]) -> float:
    """The mean of the fastest quarter."""
    return statistics.mean(sorted(times)[: max(1, len(times) // 4)])


class Compared(NamedTuple):
    """Two variants, measured in turns [us]."""

    without: float
    added: float
    """By the fastest rounds."""
    median: float
    """Of the differences."""
    noise: float
    """Distance of their quartiles."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> Compared:
        """Of pairs without and with."""
        low, middle, high = statistics.quantiles([more - less for less, more in pairs], n=4, method="inclusive")
        without, with_them = (_fast([pair[n] for pair in pairs]) for n in (0, 1))
        return cls(without, with_them - without, middle, high - low)

    def __str__(self) -> str:
        return f"{self.added:+6.2f} us (median {self.median:+.2f}, noise {self.noise:.2f})"


async def chain(wrappers: Sequence[Any], rounds: int) -> Compared:
    """What wrappers add to a call of the chain."""
    run, task, ended = FakeRun(), ToolCall(id="t", tool=ToolId("a:b")), outcome("t", status=Status.OK)

    async def innermost(_task: Task, _run: Run) -> Outcome:
        await asyncio.sleep(0)
        return ended

    log = FakeLog()
    chains = [fold([NamedWrapper(f"w{n}", w) for n, w in enumerate(some)], innermost, log) for some in ((), wrappers)]

    async def us(chain: CallNext) -> float:
        began = time.process_time()
        for _ in range(CHAIN_CALLS):
            await chain(task, run)
        return (time.process_time() - began) / CHAIN_CALLS * 1e6

    return Compared.of([(await us(chains[0]), await us(chains[1])) for _ in range(rounds)])


class Deaf:
    """A tracer that does nothing."""

    def started(self, span: Any) -> None:
        """Nothing."""

    def ended(self, ended: Any) -> None:
        """Nothing."""

    async def flush(self) -> None:
        """Nothing."""


def traced(rounds: int) -> Compared:
    """What ten tracers more add to the two that there are anyway."""
    task, ended = ToolCall(id="t", tool=ToolId("a:b")), outcome("t")
    run: Any = SimpleNamespace(id="x", parent=None, trace_id="0" * 32, span_id="0" * 16, parent_span_id=None)
    few, many = (Tracing([NamedTracer(f"t{n}", Deaf()) for n in range(count)], FakeLog()) for count in (2, 2 + EACH))

    def us(tracing: Tracing) -> float:
        began = time.process_time()
        for _ in range(CHAIN_CALLS):
            tracing.end(tracing.start(task, run), ended)
        return (time.process_time() - began) / CHAIN_CALLS * 1e6

    return Compared.of([(us(few), us(many)) for _ in range(rounds)])


def install(folder: Path) -> None:
    """A distribution with the twenty, where only one gateway sees it."""
    (folder / "twenty.py").write_text(TWENTY, encoding="utf-8")
    for n in range(EACH):
        (folder / f"twenty_{n}.py").write_text(
            "from twenty import hook\npml_wrap_executor = hook()\n", encoding="utf-8"
        )
    info = folder / "twenty-1.0.dist-info"
    info.mkdir()
    head = "Metadata-Version: 2.1\nName: twenty\nVersion: 1.0\nRequires-Dist: pml-hookspecs>=0.2,<0.3\n"
    (info / "METADATA").write_text(head, encoding="utf-8")
    points = ["[pml.tracer]", *(f"{name} = twenty:Deaf" for name in TRACERS)]
    points += ["[pml.plugins]", *(f"w{n} = twenty_{n}" for n in range(EACH))]
    (info / "entry_points.txt").write_text("\n".join(points) + "\n", encoding="utf-8")


class ServeProcess:
    """``pml serve`` in a process of its own, with a client of one thread."""

    def __init__(self, folder: Path, *, twenty: bool) -> None:
        """Start it, and have it ready."""
        home = folder / f"home-{twenty}"
        home.mkdir()
        script = folder / "server.py"
        script.write_text(SERVER, encoding="utf-8")
        tracers = ["log", "store", *(TRACERS if twenty else ())]
        server = f'{{command="{sys.executable}", args=["{script}"]}}'
        words = [f"servers.e={server}", f"gateway.tracers={json.dumps(tracers)}", "gateway.log_level=error"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PML_")} | {"PML_HOME": str(home)}
        if twenty:
            environment["PYTHONPATH"] = str(folder)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pml_core", "serve", *(word for text in words for word in ("--set", text))],
            cwd=home,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self._ask([{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}])
        self._ask([{"jsonrpc": "2.0", "id": 0, "method": "tools/list"}])
        self.us(500)

    def _ask(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Send requests at once and read as many answers."""
        sending, answers = self._process.stdin, self._process.stdout
        if sending is None or answers is None:
            raise RuntimeError("the gateway has no pipes")
        sending.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        sending.flush()
        left = len(messages)
        while left:
            answer = json.loads(answers.readline())
            if "error" in answer:
                raise RuntimeError(f"answered with {answer['error']}")
            left -= "id" in answer

    def us(self, calls: int) -> float:
        """Processor time of a call in the gateway's process [us]."""
        params = {"name": "e__echo", "arguments": {"path": "/a"}}
        before = self._cpu_ns()
        for first in range(0, calls, AT_ONCE):
            ids = range(first, first + AT_ONCE)
            self._ask([{"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params} for n in ids])
        return (self._cpu_ns() - before) / 1e3 / calls

    def _cpu_ns(self) -> int:
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in threads)

    def close(self) -> None:
        """End it."""
        with self._process:
            pass


def together(calls: int, rounds: int) -> Compared:
    """A call without the twenty, and what they add to it."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        install(Path(folder))
        usual, more = (
            stack.enter_context(closing(ServeProcess(Path(folder), twenty=twenty))) for twenty in (False, True)
        )
        return Compared.of([(usual.us(calls), more.us(calls)) for _ in range(rounds)])


def main() -> int:
    """Print the figures; 1 when a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=31)
    asked = parser.parse_args()
    wrappers = asyncio.run(chain([Empty()] * EACH, asked.rounds))
    passing = asyncio.run(chain([Passing()] * EACH, asked.rounds))
    tracers = traced(asked.rounds)
    empty = wrappers.added / EACH
    print(f"an empty wrapper:         {empty:6.2f} us per call, limit {WRAPPER_LIMIT_US:g} us")
    print(f"one without a coroutine:  {passing.added / EACH:6.2f} us per call")
    print(f"ten empty wrappers:       {wrappers}")
    print(f"ten empty tracers:        {tracers}")
    whole = together(asked.calls, asked.rounds)
    share = (wrappers.added + tracers.added) / whole.without
    print(f"a call through pml serve: {whole.without:6.1f} us of processor time")
    print(f"the twenty by themselves: {share:.1%} of the call, limit {TOGETHER_LIMIT:.0%}")
    print(f"a gateway with them:      {whole}")
    return 0 if empty <= WRAPPER_LIMIT_US and share <= TOGETHER_LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
