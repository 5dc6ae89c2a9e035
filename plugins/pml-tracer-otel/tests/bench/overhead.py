"""What a tool call costs with the tracer and without, in the process of the gateway.

    python plugins/pml-tracer-otel/tests/bench/overhead.py --calls 3000 --rounds 7

A gateway, a client and a server share this process, without a wire between them; the collector is a process of its own
that takes everything and looks at nothing. Each round runs every variant; what is printed is the least of the rounds.
``thread`` is the CPU time of the event loop's thread, ``process`` has that of the thread that exports, too.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections import defaultdict

from pml_testing.gateway import Client, ScriptedServer, running
from pml_tracer_otel import OtelTracer, plugin

COLLECTOR = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Take(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_args):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Take)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
PARENT = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
Figures = tuple[float, float, float]


class Nothing:
    """A tracer that does nothing: what the gateway itself spends on having one."""

    def __init__(self, settings: object, services: object) -> None:
        """Takes note of nothing."""

    def started(self, span: object) -> None:
        """Nothing."""

    def ended(self, ended: object) -> None:
        """Nothing."""

    async def flush(self) -> None:
        """Nothing."""


async def measure(calls: int, tracer: type | None, table: dict[str, object], params: dict[str, object]) -> Figures:
    """CPU of the loop's thread, of the process, and time on the clock, per call [µs]."""
    plugins = {} if tracer is None else {("tracer", "otel"): tracer}
    if tracer is OtelTracer:
        plugins["hooks", "otel"] = plugin
    names = () if tracer is None else ("otel",)
    tables = {"otel": table} if tracer is OtelTracer else {}
    servers = {"files": ScriptedServer()}
    async with running(servers, plugins=plugins, tables=tables, tracers=names, log_level="error") as gateway:
        client = Client(gateway)
        await client.initialize()
        for _ in range(200):
            await client.call("files__read_file", {"path": "a"}, **params)
        before = time.thread_time(), time.process_time(), time.perf_counter()
        for _ in range(calls):
            await client.call("files__read_file", {"path": "a"}, **params)
        if tracer is OtelTracer:
            mine, clock = time.thread_time(), time.perf_counter()
            await asyncio.sleep(1.5)  # what is exported later belongs to these calls, too
            after = mine, time.process_time(), clock
        else:
            after = time.thread_time(), time.process_time(), time.perf_counter()
    one, two, three = ((now - then) / calls * 1e6 for now, then in zip(after, before, strict=True))
    return one, two, three


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=3000, help="calls of one variant in one round")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with subprocess.Popen([sys.executable, "-c", COLLECTOR], stdout=subprocess.PIPE, text=True) as collector:
        port = collector.stdout.readline().strip() if collector.stdout else ""
        table: dict[str, object] = {"endpoint": f"http://127.0.0.1:{port}"}
        variants: dict[str, tuple[type | None, dict[str, object], dict[str, object]]] = {
            "no tracer": (None, {}, {}),
            "a tracer that does nothing": (Nothing, {}, {}),
            "no tracer, a client that traces": (None, {}, {"_meta": PARENT}),
            "otel, every trace": (OtelTracer, table, {}),
            "otel, every trace, of a client": (OtelTracer, table, {"_meta": PARENT}),
            "otel, one trace in a hundred": (OtelTracer, {**table, "sample_ratio": 0.01}, {}),
            "otel, metrics only": (OtelTracer, {**table, "traces": False}, {}),
        }
        found: dict[str, list[Figures]] = defaultdict(list)
        for _ in range(arguments.rounds):
            for name, variant in variants.items():
                found[name].append(asyncio.run(measure(arguments.calls, *variant)))
        collector.terminate()
    base = [min(column) for column in zip(*found["no tracer"], strict=True)]
    lines = [f"{'per call [µs]':32} {'thread':>14} {'process':>14} {'clock':>14}"]
    for name, rounds in found.items():
        least = [min(column) for column in zip(*rounds, strict=True)]
        lines.append(f"{name:32}" + "".join(f" {m:7.1f} {m - b:+6.1f}" for m, b in zip(least, base, strict=True)))
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
