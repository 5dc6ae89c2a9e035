"""``pml serve``: run the gateway."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
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
        help="run the gateway for an MCP client",
        description="Serve one MCP client on standard input and output, in front of all configured servers.",
    )
    add_sources(parser)
    parser.add_argument("--strict", action="store_true", help="refuse to start when any plugin fails")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until the client goes away or a signal comes; the exit status."""
    from pml_core.config import load

    overrides = [*arguments.overrides, *(["gateway.strict=true"] if arguments.strict else [])]
    config = load(arguments.config, overrides=overrides, mode=arguments.mode)
    if sys.stdin is not None and sys.stdin.isatty():
        print(BY_HAND, file=sys.stderr)
    return asyncio.run(_serve(config))


async def _serve(config: Any) -> int:
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
        async with Gateway(config, one_client=True) as gateway:
            await gateway.serve("stdio:")
    except asyncio.CancelledError:
        if not stopped_by:
            raise
        return 128 + stopped_by[0]
    return 0
