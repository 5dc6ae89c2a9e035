"""The hook plugin ``demo``. Imported by every ``pml --help``, so nothing heavy is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pml_hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse


@hookimpl
def pml_commands(subcommands: Any) -> None:
    """Add ``pml demo``."""
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "demo",
        help="see the gateway work on real MCP servers",
        description=(
            "Install real MCP servers into an environment of their own, put PML in front of them, talk to it as a "
            "client would, and show in one screen what came of it. Works in a temporary folder; your own "
            "configuration and history are neither read nor written."
        ),
    )
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the screen")
    parser.add_argument("--no-node", dest="node", action="store_false", help="leave out the servers written for Node")
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder")
    parser.add_argument("--verbose", action="store_true", help="show the gateway's log")
    parser.set_defaults(run=run, needs_gateway=True)


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; the exit status."""
    from .command import run as run_demo

    return run_demo(arguments)
