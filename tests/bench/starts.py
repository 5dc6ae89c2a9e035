"""Measures how long a client waits for its greeting and for the first list, by the number of servers.

    python tests/bench/starts.py [--servers 0,5,20,58] [--rounds N] [--server 'COMMAND'] [--sleep S] [--before PML]

Each server is a process of its own. Beside PML stand the same servers started without it, as many at a time as there
are processors, until the last one has listed its tools; and with ``--before`` the ``pml`` command of another checkout.
Figures of one machine mean little; ratios within one round mean something: see docs/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path

from client import Connection

HERE = Path(__file__).parent
SERVER = f"{shlex.quote(sys.executable)} -I -S {shlex.quote(str(HERE / 'server.py'))} NAME 10"
LATE = "import os,sys,time\ntime.sleep(float(sys.argv[1]))\nos.execv(sys.argv[2], sys.argv[2:])"


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--servers", default="0,5,20,58", metavar="N,N", help="how many there are: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often all is measured: %(default)s")
    parser.add_argument("--server", default=SERVER, metavar="COMMAND", help="a server; NAME in it becomes its name")
    parser.add_argument("--sleep", type=float, default=0.0, metavar="S", help="how late one of them is, in seconds")
    parser.add_argument("--before", metavar="PML", help="the pml command of another checkout")
    return parser.parse_args()


def servers(given: argparse.Namespace, number: int) -> dict[str, list[str]]:
    """The command line of each server by name."""
    made = {f"s{n}": shlex.split(given.server.replace("NAME", f"s{n}")) for n in range(number)}
    if given.sleep and made:
        name = f"s{number // 2}"
        made[name] = [sys.executable, "-I", "-S", "-c", LATE, str(given.sleep), *made[name]]
    return made


async def gateway(pml: str, commands: dict[str, list[str]], *, lazy: bool = False) -> tuple[float, float, float]:
    """Until the greeting, until the list, and until the list of the second start [s]."""
    with tempfile.TemporaryDirectory(prefix="pml-bench-") as name:
        folder = Path(name)
        start = 'start = "lazy"\n' if lazy else ""
        tables = [
            f"[servers.{server}]\n{start}command = {json.dumps(command)}\nargs = {json.dumps(rest)}\n"
            for server, (command, *rest) in commands.items()
        ]
        (folder / "pml.toml").write_text("\n".join(tables))
        words = [pml, "serve", "--config", str(folder / "pml.toml"), "--mode", "full_proxy"]
        took = []
        for _ in range(2):
            began_s = time.perf_counter()
            client = Connection(words, folder, {**os.environ, "PML_HOME": str(folder / "home")})
            await client.start()
            took.append(time.perf_counter() - began_s)
            tools, _ = await client.tools()
            took.append(time.perf_counter() - began_s)
            await client.close()
            if commands and not tools:
                raise SystemExit("no tools were listed")
    return (took[2] if lazy else took[0]), took[1], took[3]


async def alone(commands: dict[str, list[str]]) -> float:
    """Until the last of them has listed its tools [s]."""
    turns = asyncio.Semaphore(max(2, len(os.sched_getaffinity(0))))

    async def one(command: list[str], folder: Path) -> Connection:
        waits = command[4] == LATE if len(command) > 4 else False
        client = Connection(command, folder, dict(os.environ))
        if waits:  # it needs no processor, so that it needs no turn
            await client.start()
            await client.tools()
            return client
        async with turns:
            await client.start()
            await client.tools()
        return client

    with tempfile.TemporaryDirectory(prefix="pml-bench-") as folder:
        began_s = time.perf_counter()
        clients = await asyncio.gather(*(one(command, Path(folder)) for command in commands.values()))
        took_s = time.perf_counter() - began_s
        await asyncio.gather(*(client.close() for client in clients))
    return took_s


async def measured(given: argparse.Namespace) -> None:
    """Print a table."""
    subjects = {"pml": str(Path(sys.executable).with_name("pml"))}
    if given.before:
        subjects["before"] = given.before
    print("| servers | subject | greeting [s] | first list [s] | the same, later [s] | first list / alone |")
    print("|---|---|---|---|---|---|")
    for number in map(int, given.servers.split(",")):
        commands = servers(given, number)
        rows: dict[str, list[tuple[float, ...]]] = {}
        for _ in range(given.rounds):
            floor_s = await alone(commands) if commands else 0.0
            rows.setdefault("alone", []).append((0.0, floor_s, 0.0, 1.0))
            for name, pml in subjects.items():
                took = await gateway(pml, commands)
                rows.setdefault(name, []).append((*took, took[1] / floor_s if floor_s else 0.0))
            took = await gateway(subjects["pml"], commands, lazy=True)
            rows.setdefault("pml, lazy, started before", []).append((*took, 0.0))
        for name, found in rows.items():
            middle = [statistics.median(column) for column in zip(*found, strict=True)]
            print(f"| {number} | {name} | " + " | ".join(f"{one:.2f}" if one else "-" for one in middle) + " |")


if __name__ == "__main__":
    asyncio.run(measured(arguments()))
