"""What following values costs a plan: CPU of a gateway in this process, for each call of a plan, with scripted servers.

    .venv/bin/python tests/bench/flows.py [--tasks N] [--rounds N]

Three gateways take turns: without the plugin, with it where every server is trusted, and where none is. Every second
task takes a
text from the one before it, into an argument that may have it, so that all of it is looked at and nothing is stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from contextlib import AsyncExitStack

import pml_executor_dag.tool
import pml_flows.plugin
from pml_executor_dag import Dag
from pml_testing.gateway import Client, ScriptedServer, running

SCHEMA = {"type": "object", "properties": {"body": {"type": "string"}, "to": {"type": "string"}}}
WAYS = {"without the plugin": None, "every server trusted": "trusted", "no server trusted": "untrusted"}


async def answer(_name: str, _arguments: object) -> dict[str, object]:
    return {"content": [{"type": "text", "text": "done"}], "structuredContent": {"text": "some words " * 20}}


async def measured(tasks: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds of CPU for each call, by way, one number for each round."""
    plan = []
    for i in range(tasks):
        body = f"{{{{t{i - 1}.text}}}}" if i % 2 else "words"
        plan.append({"id": f"t{i}", "tool": f"s{i % 2}:send", "arguments": {"to": "a@b.example", "body": body}})
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    async with AsyncExitStack() as stack:
        clients = {}
        for way, words in WAYS.items():
            plugins = {("executor", "dag"): Dag, ("hooks", "workflow_tool"): pml_executor_dag.tool}
            if words is not None:
                plugins["guards", "flows"] = pml_flows.plugin
            servers = {name: ScriptedServer([{"name": "send", "inputSchema": SCHEMA}], answer) for name in ("s0", "s1")}
            said = {} if words is None else dict.fromkeys(servers, words)
            gateway = await stack.enter_async_context(running(servers, plugins=plugins, words=said))
            clients[way] = Client(gateway)
            await clients[way].initialize()
        for number in range(rounds + 3):
            for way, client in clients.items():
                began = time.process_time()
                told = await client.call("execute_workflow", {"workflow": {"tasks": plan}})
                took_us = (time.process_time() - began) / tasks * 1e6
                assert not told.get("isError"), told
                if number >= 3:
                    found[way].append(took_us)
    return found


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=200, help="of the plan")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    found = asyncio.run(measured(given.tasks, given.rounds))
    base = statistics.median(found["without the plugin"])
    for way, took_us in found.items():
        median = statistics.median(took_us)
        print(f"| {way} | {median:.0f} µs | {100 * (median / base - 1):+.1f} % |")


if __name__ == "__main__":
    main()
