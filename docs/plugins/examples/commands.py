"""A command, `pml largest`: which tools take most room in a client's context. It gets the plugin's services, so it sees
the catalog that the gateway had when it last ran, or with `--connect` the one of now."""

from __future__ import annotations

import argparse
from typing import Any

from pml_hookspecs import Services, hookimpl


@hookimpl
def pml_commands(subcommands: Any) -> None:
    parser: argparse.ArgumentParser = subcommands.add_parser("largest", help="the tools with the longest definitions")
    parser.add_argument("--limit", type=int, default=10, help="most tools to show")
    parser.set_defaults(run_with=largest)


async def largest(arguments: argparse.Namespace, services: Services) -> int:
    tools = [entry for entry in services.catalog if not entry.own]
    for entry in sorted(tools, key=lambda entry: (-entry.tokens, entry.id))[: arguments.limit]:
        print(f"{entry.tokens:6}  {entry.id}")  # noqa: T201
    return 0
