"""What the plugin adds to the command line, and what that costs."""

from __future__ import annotations

import argparse
import subprocess
import sys

from pml_demo import plugin

HEAVY = ("mcp", "mcp_types", "pydantic", "rich", "asyncio")


def parse(*words):
    parser = argparse.ArgumentParser()
    plugin.pml_commands(parser.add_subparsers())
    return parser.parse_args(["demo", *words])


def test_the_command_is_added_with_its_options():
    given = parse("--json", "--keep", "--verbose", "--no-node")
    assert (given.json, given.keep, given.verbose, given.node) == (True, True, True, False)
    assert given.run is plugin.run
    assert parse().node is True


def test_adding_the_command_imports_nothing_heavy():
    program = (
        "import argparse, sys; from pml_demo import plugin;"
        "plugin.pml_commands(argparse.ArgumentParser().add_subparsers());"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
