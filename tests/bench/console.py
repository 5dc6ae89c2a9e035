"""How fast the console's first page is with a long history, and what a page that is left open costs the gateway.

    .venv/bin/python tests/bench/console.py [--rows 200000] [--running 1000] [--seconds 60] [--file FILE]

The history is that of ``store.py``, with so many executions under way besides. The gateway is ``pml serve --http`` in a
process of its own, with all plugins and one server; its processor time is measured with no page open, then with one,
while nothing runs and nothing ends. ``--file`` keeps the history for the next run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import httpx2
from processes import cpu_s
from store import at, fill, open_store, pace_ms
from store_questions import record

from pml_hookspecs import ExecutionId, replace
from pml_kit.system.garbage import seldom_collected

FIRST_PAGE_MS, IDLE = 300.0, 0.01
"""Longest that the first page takes at the 95th percentile [ms]; greatest part of a core that an open page takes."""
SERVER = Path(__file__).parents[1] / "browser" / "server.py"
PATIENCE_S = 120.0
CONFIG = """
[gateway]
tools_exposure = "meta_only"

[plugins.sqlite]
path = {database}
keep_days = 0
keep_bytes = 0

[plugins.http.tokens.lead]
token = "lead-token"
scopes = ["approve", "system", "operate"]

[servers.desk]
command = {python}
args = [{server}]
"""


async def history(file: Path, rows: int) -> None:
    """A store with so many rows."""
    async with open_store("sqlite", {"path": str(file)}) as store:
        await fill(store, rows)


async def begin(file: Path, running: int) -> None:
    """Rows of so many executions that have not ended: younger than the gateway, or they would be taken for lost."""
    async with open_store("sqlite", {"path": str(file)}) as store:
        for n in range(running):
            one = replace(record(3 * n, datetime.now(UTC)), id=ExecutionId(str(uuid4())), response=None, failure=None)
            await store.executions.put(replace(one, parent=None, status="running", duration_ms=None))


@contextmanager
def gateway(folder: Path, database: Path) -> Iterator[tuple[int, str]]:
    """One that serves the console: its process, and where."""
    config = folder / "bench.toml"
    values = {"database": str(database), "python": sys.executable, "server": str(SERVER)}
    config.write_text(CONFIG.format(**{name: json.dumps(value) for name, value in values.items()}))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    command = [sys.executable, "-m", "pml_core", "serve", "--config", str(config), "--http", "127.0.0.1:0"]
    log = folder / "log.txt"
    with log.open("w") as said:
        process = subprocess.Popen(command, env={**kept, "PML_HOME": str(folder / "home")}, stdout=said, stderr=said)
        try:
            yield process.pid, address_in(log)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def address_in(log: Path) -> str:
    """Where it serves, once it says so."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if found := re.search(r"serving MCP at (\S+)/mcp", log.read_text()):
            return found[1]
        time.sleep(0.1)
    raise SystemExit(log.read_text())


def part_of_core(process: int, seconds: float) -> float:
    """What a process uses of one core, for so long from now."""
    before, began = cpu_s([process]), time.perf_counter()
    time.sleep(seconds)
    return (cpu_s([process]) - before) / (time.perf_counter() - began)


def measure(process: int, url: str, asked: argparse.Namespace) -> list[str]:
    """Print what was measured; what missed its goal."""
    with httpx2.Client(base_url=url, timeout=PATIENCE_S, follow_redirects=True) as browser:
        browser.post("/console/login", data={"token": "lead-token"}).raise_for_status()
        took, sizes = [], set()
        for _ in range(asked.times):
            began = time.perf_counter()
            page = browser.get("/console/").raise_for_status()
            took.append((time.perf_counter() - began) * 1000)
            sizes.add(len(page.content))
        took.sort()
        print(f"first page [ms]: p50 {at(took, 0.5):.0f}, p95 {at(took, 0.95):.0f}; {max(sizes):,} bytes", flush=True)
        time.sleep(5.0)  # what follows a start is over
        closed = part_of_core(process, asked.seconds)
        with browser.stream("GET", "/console/live/now") as events:
            next(events.iter_raw())
            opened = part_of_core(process, asked.seconds)
    print(f"processor, part of a core: {closed:.2%} with no page open, {opened:.2%} with one")
    missed = {"first page": at(took, 0.95) >= FIRST_PAGE_MS, "open page": opened - closed >= IDLE}
    return [name for name, late in missed.items() if late]


def main() -> None:
    """Print what was measured; exit with 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--running", type=int, default=1000)
    parser.add_argument("--times", type=int, default=50, help="how often the first page is asked for")
    parser.add_argument("--seconds", type=float, default=60, help="for how long processor time is counted, each time")
    parser.add_argument("--file", type=Path, help="SQLite file to use, and to fill up to as many rows as asked for")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = asked.file or Path(folder) / "pml.db"
        with seldom_collected() as up:
            up()
            asyncio.run(history(database, asked.rows))
        print(f"{asked.rows:,} executions, {asked.running:,} running; {pace_ms()}", flush=True)
        with gateway(Path(folder), database) as (process, url):
            asyncio.run(begin(database, asked.running))
            missed = measure(process, url, asked)
    print(f"missed: {', '.join(missed)}" if missed else "every goal reached")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
