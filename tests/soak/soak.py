"""A million calls through a real gateway to a server that goes wrong now and then.

    python tests/soak/soak.py --calls 1_000_000 --faulty 0.001

``pml serve`` in full_proxy mode with recording on, a raw client that keeps 64 calls in flight, and ``echo_server.py``
behind it. Every answer is compared with what its own call has to get. The exit status is 1 when an answer was not the
right one, when memory grew, or when the gateway wrote a traceback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
sys.path.insert(0, str(Path(__file__).parent))
from client import Answer, Connection, GoneError, WrongAnswerError
from echo_server import BIG, FAULTS
from processes import resident_mb

SERVER = Path(__file__).with_name("echo_server.py")
LIMIT_S = 1.0
"""Longest that the gateway waits for the server [s]."""
LATE_S = 1.5
OFTEN = tuple(fault for fault in FAULTS if fault != "exit")
OUTAGE_S = 0.1
"""Pause of a caller who was told that the server is not connected [s]."""
LONGEST_OUTAGE_S = 150.0
"""More than the gateway waits at most before it starts a server again [s]."""
WARM = 0.1
"""Part of the calls after which memory should have found its level."""
GROWTH_AT_MOST = 1.1
SHOWN_ROWS = 20
RIGHT = {
    "silent": "timed out",
    "late": "timed out",
    "wrong id": "timed out",
    "error": "refused",
    "exit": "not connected",
}
"""What a faulty call has to come to; ``answered`` for the others."""
OUTAGE = "not connected"
"""What any call may come to, because the server exits now and then."""


@dataclass
class Sample:
    """The gateway at one moment."""

    at_s: float
    calls: int
    mb: float


@dataclass
class Soak:
    """One run."""

    connection: Connection
    calls: int
    faulty: float
    exits: float
    random: Random
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many calls of a kind came to what."""
    wrong: list[str] = field(default_factory=list)
    done: int = 0
    samples: list[Sample] = field(default_factory=list)

    def kinds(self) -> Iterator[tuple[int, str]]:
        """Number and kind of each call."""
        for number in range(self.calls):
            chance = self.random.random()
            if chance < self.exits:
                yield number, "exit"
            elif chance < self.exits + self.faulty:
                yield number, self.random.choice(OFTEN)
            else:
                yield number, "good"

    async def caller(self, kinds: Iterator[tuple[int, str]]) -> None:
        """Make calls, one after the other, until there are none left."""
        out_since: float | None = None
        for number, kind in kinds:
            text = f"{number:x}-{self.random.getrandbits(64):x}"
            params: dict[str, Any] = {"name": "echo__echo", "arguments": {"text": text}}
            if kind != "good":
                params["arguments"]["fault"] = kind
            if kind == "notes":
                params["_meta"] = {"progressToken": text}
            outcome = self._judge(kind, text, await self.connection.request("tools/call", params))
            self.outcomes[kind, outcome] += 1
            self.done += 1
            if outcome != OUTAGE:
                out_since = None
                continue
            out_since = out_since or time.monotonic()
            if time.monotonic() - out_since > LONGEST_OUTAGE_S:
                raise GoneError(f"the server was not connected for {LONGEST_OUTAGE_S:g} s")
            await asyncio.sleep(OUTAGE_S)

    def _judge(self, kind: str, text: str, answer: Answer) -> str:
        """What an answer is, in a word; remembered when it is wrong."""
        outcome = outcome_of(answer.message)
        right = RIGHT.get(kind, "answered")
        found = answer.message.get("error", {}).get("message") if outcome == "refused" else None
        if outcome == "answered":
            found = answer.text()
        expected = text if kind == "good" else text + {"big": "x" * BIG, "not text": "\ufffd\ufffd"}.get(kind, "")
        if outcome not in (right, OUTAGE) or (found is not None and found != expected):
            self.wrong.append(f"{kind} call {text} came to: {outcome} {str(answer.message)[:300]}")
        return outcome

    async def watch(self) -> None:
        """Look at the gateway's memory every second."""
        start = time.monotonic()
        while True:
            self.samples.append(Sample(time.monotonic() - start, self.done, resident_mb([self.connection.pid])))
            await asyncio.sleep(1)

    def growth(self) -> tuple[float, float, float]:
        """Most memory in the two halves of the run, warm-up left out, and their ratio [MB, MB, 1]."""
        warm = [s for s in self.samples if s.calls >= WARM * self.done] or self.samples
        middle = (1 + WARM) / 2 * self.done
        first = max((s.mb for s in warm if s.calls < middle), default=warm[0].mb)
        second = max((s.mb for s in warm if s.calls >= middle), default=first)
        return first, second, second / first


def outcome_of(message: dict[str, Any]) -> str:
    """``answered``, ``refused`` by the server, or what the gateway says."""
    if "error" in message:
        return "refused"
    result = message["result"]
    if not result.get("isError"):
        return "answered"
    code = str(result.get("_meta", {}).get("pml/failure", {}).get("code"))
    return {"tool.timed_out": "timed out", "tool.not_connected": "not connected"}.get(code, code)


def gateway(folder: Path) -> Connection:
    """A gateway in front of the echo server, not yet started."""
    server = {"command": sys.executable, "args": ["-I", "-S", str(SERVER), f"{LATE_S:g}"]}
    config = folder / "pml.toml"
    tables = "\n".join(f"{name} = {json.dumps(value)}" for name, value in server.items())
    text = f'[gateway]\ntools_exposure = "full_proxy"\n\n[servers.echo]\n{tables}\ntimeout_s = {LIMIT_S}\n'
    config.write_text(text, encoding="utf-8")
    command = [str(Path(sys.executable).with_name("pml")), "serve", "--config", str(config)]
    return Connection(command, folder, {**os.environ, "PML_HOME": str(folder / "home")})


async def run(given: argparse.Namespace, folder: Path, console: Console) -> int:
    """The exit status."""
    connection = gateway(folder)
    soak = Soak(connection, given.calls, given.faulty, given.exits, Random(given.seed))
    columns = (TextColumn("calling"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    try:
        await connection.start()
        await connection.tools()
        watching = asyncio.ensure_future(soak.watch())
        start = time.monotonic()
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            bar = progress.add_task("calling", total=given.calls)
            kinds = soak.kinds()
            callers = [asyncio.ensure_future(soak.caller(kinds)) for _ in range(given.in_flight)]
            while callers:
                done, pending = await asyncio.wait(callers, timeout=0.5)
                callers = list(pending)
                progress.update(bar, completed=soak.done)
                for caller in done:
                    caller.result()
        took_s = time.monotonic() - start
        watching.cancel()
    except (WrongAnswerError, GoneError) as error:
        console.print(str(error), style="red", markup=False)
        return 1
    finally:
        await connection.close()
    said = (folder / "stderr.txt").read_text(encoding="utf-8", errors="replace")
    return show(soak, took_s, said, console)


def show(soak: Soak, took_s: float, said: str, console: Console) -> int:
    """Print what was found; the exit status."""
    console.print(f"{soak.done} calls in {took_s:.1f} s: {soak.done / took_s:.0f}/s")
    table = Table("call", "came to", "how many")
    for (kind, outcome), count in sorted(soak.outcomes.items()):
        table.add_row(kind, outcome, str(count))
    console.print(table)
    table = Table("after [s]", "calls", "resident [MB]")
    for sample in soak.samples[:: max(1, len(soak.samples) // SHOWN_ROWS)]:
        table.add_row(f"{sample.at_s:.0f}", str(sample.calls), f"{sample.mb:.1f}")
    console.print(table)
    first, second, ratio = soak.growth()
    console.print(f"memory: {first:.1f} MB at most in the first half, {second:.1f} MB in the second: {ratio:.3f}")
    console.print(f"wrong answers: {len(soak.wrong)}")
    for wrong in soak.wrong[:10]:
        console.print(wrong, style="red", markup=False)
    trouble = "Traceback" in said
    if trouble:
        console.print(said[-3000:], style="red", markup=False)
    return int(bool(soak.wrong) or ratio > GROWTH_AT_MOST or trouble)


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=100_000, help="how many (default: %(default)s)")
    parser.add_argument("--faulty", type=float, default=0.001, help="part of them (default: %(default)s)")
    parser.add_argument("--exits", type=float, default=0.00001, help="part that ends the server (default: %(default)s)")
    parser.add_argument("--in-flight", type=int, default=64, help="at a time (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="which calls are which (default: %(default)s)")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="pml-soak-"))
    try:
        return asyncio.run(run(given, folder, Console()))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
