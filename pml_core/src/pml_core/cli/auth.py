"""``pml auth``: log in to remote servers that want to know who uses them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from .sources import add_sources, load_as_told


def add(subcommands: Any) -> None:
    """Add the commands."""
    parser = subcommands.add_parser("auth", help="log in to remote servers")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for verb, text in (
        ("login", "log in to a server in the browser, and keep the tokens for the gateway"),
        ("logout", "forget a server's tokens"),
    ):
        one: argparse.ArgumentParser = verbs.add_parser(verb, help=text, description=text)
        add_sources(one)
        one.add_argument("server", metavar="NAME", help="the server, as in [servers.NAME]")
        one.set_defaults(run=run, verb=verb)


def run(arguments: argparse.Namespace) -> int:
    """Log in or out; the exit status."""
    from pml_core.admin.logins import log_in, log_out

    config = load_as_told(arguments)
    if arguments.verb == "logout":
        asyncio.run(log_out(config, arguments.server))
        print(f"logged out of {arguments.server}")
    else:
        asyncio.run(log_in(config, arguments.server, show=lambda text: print(text, file=sys.stderr, flush=True)))
        print(f"logged in to {arguments.server}")
    return 0
