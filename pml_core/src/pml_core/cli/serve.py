"""``pml serve``: run the gateway."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable
from typing import Any

from . import add_sources

BY_HAND = (
    "pml serve speaks MCP on standard input and output: your MCP client starts it, nobody types into it.\n"
    "Ctrl-C ends it. pml import takes over your client's servers; pml plugins doctor says whether all is well."
)


def add(subcommands: Any) -> None:
    """Add the command."""
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "serve",
        help="run the gateway for MCP clients",
        description="Serve one MCP client on standard input and output, or many over HTTP, in front of all servers.",
    )
    add_sources(parser)
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="serve over HTTP instead, at /mcp, and at /mcp/NAME for each [endpoints.NAME]; needs pml-transport-http",
    )
    parser.add_argument("--strict", action="store_true", help="refuse to start when any plugin fails")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client goes away or a signal comes; the exit status."""
    from pml_core.config import load

    overrides = [*arguments.overrides, *(["gateway.strict=true"] if arguments.strict else [])]
    config = load(arguments.config, overrides=overrides, mode=arguments.mode)
    if arguments.http is not None:
        return asyncio.run(_serve(config, f"http://{arguments.http}", one_client=False, started=_say_where))
    if sys.stdin is not None and sys.stdin.isatty():
        print(BY_HAND, file=sys.stderr)
    return asyncio.run(_serve(config, "stdio:", one_client=True))


def _say_where(bound: str) -> None:
    print(f"serving MCP at {bound}/mcp (Ctrl-C ends it)", file=sys.stderr, flush=True)


async def _serve(config: Any, address: str, *, one_client: bool, started: Callable[[str], None] | None = None) -> int:
    from pml_core.garbage import seldom_collected
    from pml_core.gateway import Gateway

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    stopped_by: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        stopped_by.append(number)
        if task is not None:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        with seldom_collected() as up:
            async with Gateway(config, one_client=one_client) as gateway:
                up()
                await gateway.serve(address, started=started)
    except asyncio.CancelledError:
        if not stopped_by:
            raise
        return 128 + stopped_by[0]
    return 0
