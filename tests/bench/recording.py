"""What recording costs a real call: processor time of the gateway's process, all threads, with and without it.

    .venv/bin/python tests/bench/recording.py [--pairs 100] [--rates busy,calm,every]

The least gateway that there is, as all that is added makes a call dearer and recording not: a store in a file, a server
in a process of its own over stdio, clients in the gateway's process. Recording is switched on and off from block to
block within one process. Of each two blocks that follow one another, in either order, the difference counts: what the
machine does besides changes slowly, and is in both. The median of the differences is shown with an interval that has
it in 95 of 100 cases, whatever their distribution (order statistics).

``busy``: eight calls at once, settings by default, so that few calls are recorded; ten times as many pairs. What is
done later for those few is in ``every``. ``calm``: single calls with pauses, settings by default but for the pace of
one tool: as many are recorded as ``cpu_share`` allows; half as many pairs again. ``every``: eight calls at once, each
of which is recorded, as with ``cpu_share = 1``. ``single``: single calls with pauses, each of which is recorded; half
as many pairs. But for ``busy``, a block ends when all that it left to do is done. ``same`` calls are all alike,
``other`` have other arguments and answers each time.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_dry_run import plugin
from pml_dry_run.recording_rate import ProcessorBudget
from pml_hookspecs import encode
from pml_settings.config import Config, GatewaySettings, ServerSettings, Source
from pml_store_sqlite import SqliteStore
from pml_testing.gateway import Client
from pml_transport_stdio import Stdio

SERVER = """
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    if m["method"] == "initialize":
        about = {"name": "e", "version": "1"}
        r = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
    elif m["method"] == "tools/list":
        r = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    else:
        r = {"content": [{"type": "text", "text": json.dumps(m["params"]["arguments"]) * SIZE}]}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}) + "\\n")
    sys.stdout.flush()
"""
DONE_S = 0.15
"""After this the store has written what it was given [s]."""
WARM_UP = 4
"""Blocks that do not count."""


@dataclass(frozen=True)
class Rate:
    """How calls come."""

    calls: int
    """In one block."""
    at_once: int
    pause_s: float
    per_second: float
    """Setting of the plugin."""
    cpu_share: float
    """The same."""
    settles: bool
    """Whether a block ends when all is written."""
    pairs: float
    """For one that is asked for."""


RATES = {
    "busy": Rate(80, 8, 0, 1, 0.02, settles=False, pairs=10),
    "calm": Rate(30, 1, 0.03, 1e6, 0.02, settles=True, pairs=1.5),
    "every": Rate(80, 8, 0, 1e6, 1, settles=True, pairs=1),
    "single": Rate(30, 1, 0.03, 1e6, 1, settles=True, pairs=0.5),
}


@dataclass(frozen=True)
class Measured:
    """Of one kind of calls, in microseconds per call."""

    without: float
    more: float
    low: float
    high: float


class Blocks:
    """Blocks of calls in one gateway."""

    def __init__(self, gateway: Gateway, client: Client, rate: Rate, *, same: bool) -> None:
        self._recorder = plugin.parts_of(gateway.assembly.services("dry_run")).recorder
        self._client, self._rate, self._same, self._number = client, rate, same, 0

    async def block(self, *, record: bool) -> float:
        """Processor time of one call [us]."""
        # Only here is it switched while calls run; what they cost without is not put by for recording.
        self._recorder._on = record
        self._recorder._budget = ProcessorBudget(self._rate.cpu_share, self._recorder._budget.price_s)
        calls = self._rate.calls
        started = time.process_time()
        await asyncio.gather(*(self._some(calls // self._rate.at_once) for _ in range(self._rate.at_once)))
        if self._rate.settles:
            await self._recorder.written()
            await asyncio.sleep(DONE_S)
        return (time.process_time() - started) / calls * 1e6

    async def _some(self, calls: int) -> None:
        for _ in range(calls):
            self._number += 1
            arguments = {"path": "/a", "n": 0 if self._same else self._number}
            await self._client.send("tools/call", encode({"name": "e__echo", "arguments": arguments}))
            if self._rate.pause_s:
                await asyncio.sleep(self._rate.pause_s)

    async def pairs(self, number: int) -> list[tuple[float, float]]:
        """Without and with recording."""
        for _ in range(WARM_UP):
            await self.block(record=True)
        found = []
        for _ in range(number):
            first = random.random() < 0.5
            one, other = await self.block(record=first), await self.block(record=not first)
            found.append((other, one) if first else (one, other))
        return found


async def measure(folder: Path, rate: Rate, pairs: int, *, same: bool, size: int) -> Measured:
    """Blocks in a gateway of their own."""
    script = folder / "server.py"
    script.write_text(SERVER.replace("SIZE", str(size)))
    settings = {
        "dry_run": {"per_second": rate.per_second, "cpu_share": rate.cpu_share},
        "sqlite": {"path": str(folder / f"{time.time_ns()}.db")},
    }
    config = Config(
        GatewaySettings(log_level="error", store="sqlite"),
        {"e": ServerSettings(command=sys.executable, args=(str(script),))},
        settings,
        (Source("bench", {"plugins": {"sqlite": {"path": ""}}}),),
    )
    found = [
        registry.provide("pml.transport", "stdio", Stdio),
        registry.provide("pml.store", "sqlite", SqliteStore),
        registry.provide("pml.plugins", "dry_run", plugin),
    ]
    async with Gateway(config, None, found) as gateway:
        await gateway.servers_tried()
        client = Client(gateway)
        await client.initialize()
        measured = await Blocks(gateway, client, rate, same=same).pairs(round(pairs * rate.pairs))
    low, high = interval([after - before for before, after in measured])
    more = statistics.median(after - before for before, after in measured)
    return Measured(statistics.median(before for before, _ in measured), more, low, high)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Bounds between which the median lies, in 95 of 100 cases."""
    found, number = sorted(values), len(values)
    rank, chance = 0, 1 / 2**number
    while chance <= 0.025:
        rank += 1
        chance += math.comb(number, rank) / 2**number
    return found[max(0, rank - 1)], found[min(number - 1, number - rank)]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--rates", default=",".join(RATES))
    asked = parser.parse_args()
    print("| calls | answer | without [us] | more [us] | more | 95 % interval |")
    print("|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.rates.split(","):
            for same, size in ((True, 1), (False, 1), (False, 100)):
                run = measure(Path(folder), RATES[name], asked.pairs, same=same, size=size)
                got = asyncio.run(run)
                share = [f"{value / got.without:+.1%}" for value in (got.more, got.low, got.high)]
                what = f"{name}, {'same' if same else 'other'}"
                figures = f"{got.without:.1f} | {got.more:+.1f} | {share[0]} | {share[1]} … {share[2]}"
                print(f"| {what} | {size * 20} B | {figures} |", flush=True)


if __name__ == "__main__":
    main()
