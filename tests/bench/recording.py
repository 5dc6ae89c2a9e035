"""What recording costs a real call: processor time of the gateway's process per call, with and without it.

    .venv/bin/python tests/bench/recording.py [--calls 10000] [--rounds 5]

A server in a process of its own over stdio, a store in a file, clients in the gateway's process. ``same`` calls are all
alike, ``other`` have other arguments and answers each time. The time in which the rest is written when the gateway ends
is part of it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from pml_core import registry
from pml_core.config import Config, GatewaySettings, ServerSettings, Source
from pml_core.gateway import Gateway
from pml_dry_run import plugin
from pml_hookspecs import encode
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
AT_ONCE = 8


async def measure(folder: Path, calls: int, *, record: bool, same: bool, size: int) -> float:
    """Processor time of one call [us]."""
    script = folder / "server.py"
    script.write_text(SERVER.replace("SIZE", str(size)))
    config = Config(
        GatewaySettings(log_level="error"),
        {"e": ServerSettings(command=sys.executable, args=(str(script),))},
        {"dry_run": {"record": record}, "sqlite": {"path": str(folder / f"{time.time_ns()}.db")}},
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

        async def some(first: int) -> None:
            for n in range(first, calls, AT_ONCE):
                arguments = {"path": "/a", "n": 0 if same else n}
                await client.send("tools/call", encode({"name": "e__echo", "arguments": arguments}))

        started = time.process_time()
        await asyncio.gather(*(some(n) for n in range(AT_ONCE)))
    return (time.process_time() - started) / calls * 1e6


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    print("calls  answer      without   with     more")
    with tempfile.TemporaryDirectory() as folder:
        for same in (True, False):
            for size in (1, 100):
                took: dict[bool, list[float]] = {False: [], True: []}
                for _ in range(asked.rounds):
                    for record, times in took.items():
                        run = measure(Path(folder), asked.calls, record=record, same=same, size=size)
                        times.append(asyncio.run(run))
                # Whatever else the machine does only adds.
                before, after = min(took[False]), min(took[True])
                name = "same" if same else "other"
                print(f"{name:5}  {size * 20:5} B  {before:7.1f} us  {after:7.1f} us  {after / before - 1:+.1%}")


if __name__ == "__main__":
    main()
