"""What a search costs a client, beside a direct call, both through ``pml serve`` in front of 700 tools.

    python tests/bench/search_ratio.py [--tools 700] [--calls 400] [--same] [--check]

All kinds of call take turns, so that what else the machine does meets them alike; on a busy machine the tenth
percentiles say more than the medians. Each search asks for something else, so that nothing is answered from memory of
the question; ``--same`` asks for the same each time. A long search asks for two things at once, which the ranker looks
at one by one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from client import Connection
from mcp import Client, StdioServerParameters, stdio_client
from server import THINGS, VERBS

SERVER = Path(__file__).with_name("server.py")
PML = Path(sys.executable).with_name("pml")
WARM_UP = 30
BOUND = 1.5
"""Times a direct call that a search may take (issue "Find")."""


def queries(same: bool) -> Iterator[tuple[str, str]]:  # noqa: FBT001
    """What is searched for: in few words, and in two clauses."""
    dice = random.Random(7)
    while True:
        one, other = (f"{dice.choice(VERBS)} a {dice.choice(THINGS)} of the {dice.choice(THINGS)}" for _ in range(2))
        yield ("find a page", "find a page, and list orders") if same else (one, f"{one}, and {other}")


def summary(times: list[float], base: list[float]) -> str:
    """Tenth percentile, median and 95th percentile [ms], and the ratios of the first two to those of ``base``."""
    p10, p95 = quiet(times), statistics.quantiles(times, n=20)[18]
    p50 = statistics.median(times)
    ratios = f"{p10 / quiet(base):5.2f} and {p50 / statistics.median(base):5.2f} x direct"
    return f"p10 {p10:6.3f} ms   p50 {p50:6.3f} ms   p95 {p95:6.3f} ms   {ratios}"


def quiet(times: list[float]) -> float:
    """The tenth percentile: what it takes while the machine does little else."""
    return statistics.quantiles(times, n=10)[0]


async def bare(connection: Connection, calls: list[dict[str, Any]]) -> list[float]:
    """One call of each kind, with a client that costs next to nothing; how long each took [ms]."""
    loop, took = asyncio.get_running_loop(), []
    for params in calls:
        start = loop.time()
        answer = await connection.request("tools/call", params)
        took.append((loop.time() - start) * 1000)
        assert not answer.result().get("isError"), answer
    return took


async def with_sdk(client: Client, calls: list[dict[str, Any]]) -> list[float]:
    """The same with the official SDK's client."""
    loop, took = asyncio.get_running_loop(), []
    for params in calls:
        start = loop.time()
        answer = await client.call_tool(params["name"], params["arguments"])
        took.append((loop.time() - start) * 1000)
        assert not answer.is_error, answer
    return took


def report(title: str, rounds: list[list[float]]) -> float:
    """Print all; the ratio of a search in few words, by the tenth percentiles."""
    columns = [list(column) for column in zip(*rounds[WARM_UP:], strict=True)]
    direct, _, search, _ = columns
    print(title)
    for kind, times in zip(("direct", "call_tool", "search", "long search"), columns, strict=True):
        print(f"  {kind:11}  {summary(times, direct)}")
    return quiet(search) / quiet(direct)


async def measure(arguments: argparse.Namespace, folder: Path) -> float:
    """Both clients, one after the other, each with a gateway of its own; the worse ratio."""
    config = folder / "mcp.json"
    server = {"command": sys.executable, "args": ["-I", "-S", str(SERVER), "big", str(arguments.tools)]}
    config.write_text(json.dumps({"mcpServers": {"big": server}}))
    # Every tool is listed, because the SDK's client lists again before it calls one that is not.
    shown = ["--mode", "full_proxy", "--set", "plugins.full_proxy.expose_meta_tools=true"]
    command = [str(PML), "serve", "--config", str(config), *shown]
    env = {**os.environ, "PML_HOME": str(folder / "home")}
    asked = queries(arguments.same)

    def calls() -> list[dict[str, Any]]:
        text = {"text": "hello"}
        short, long = next(asked)
        return [
            {"name": "big__echo", "arguments": text},
            {"name": "call_tool", "arguments": {"name": "big__echo", "arguments": text}},
            {"name": "search_tools", "arguments": {"query": short}},
            {"name": "search_tools", "arguments": {"query": long}},
        ]

    ratios = []
    connection = Connection(command, folder, env)
    await connection.start()
    try:
        await connection.tools()
        ratios.append(
            report(
                "with a client that costs nothing", [await bare(connection, calls()) for _ in range(arguments.calls)]
            )
        )
    finally:
        await connection.close()
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=env, cwd=folder)
    with (folder / "log").open("w") as log:
        async with Client(stdio_client(parameters, errlog=log), cache=None) as client:
            await client.list_tools()
            ratios.append(
                report(
                    "with the official SDK's client", [await with_sdk(client, calls()) for _ in range(arguments.calls)]
                )
            )
    return max(ratios)


def main() -> int:
    """Measure; 1 when a search takes too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=int, default=700, help="tools of the server (default: 700)")
    parser.add_argument("--calls", type=int, default=400, help="calls of each kind (default: 400)")
    parser.add_argument("--same", action="store_true", help="search for the same each time")
    parser.add_argument("--check", action="store_true", help=f"fail above {BOUND} times a direct call")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        worst = asyncio.run(measure(arguments, Path(folder)))
    return int(arguments.check and worst > BOUND)


if __name__ == "__main__":
    sys.exit(main())
