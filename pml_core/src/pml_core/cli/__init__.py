"""The ``pml`` command."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pml_core import systems
from pml_core.errors import OperatorError
from pml_hookspecs import InvalidArguments

CORE_COMMANDS = {
    "serve": "serve",
    "import": "setup.importer",
    "config": "config",
    "plugins": "plugins",
    "auth": "auth",
    "connect": "setup.connect",
    "disconnect": "setup.disconnect",
    "servers": "servers",
    "trust": "trust",
    "untrust": "trust",
}
"""Commands and their modules."""


def build_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for ``argv``. Plugins that add commands are only imported when no core command is asked for."""
    from pml_core import __doc__ as about

    parser = argparse.ArgumentParser(prog="pml", description=about)
    parser.add_argument("--version", action="store_true", help="print the version")
    subcommands = parser.add_subparsers(metavar="COMMAND", title="commands")
    asked = argv[0] if argv else ""
    # Only what was asked for is imported: a client waits for `pml serve`.
    for command, module in CORE_COMMANDS.items():
        if asked == command or asked not in CORE_COMMANDS:
            importlib.import_module(f"{__name__}.{module}").add(subcommands)
    if asked not in CORE_COMMANDS:
        _add_plugin_commands(subcommands)
    return parser


def _add_plugin_commands(subcommands: Any) -> None:
    from pml_core.plugins.hooks import HookManager
    from pml_core.plugins.registry import discover

    from .with_services import prepare

    manager = HookManager()
    manager.load(discover())
    for name, plugin in sorted(manager.list_name_plugin()):
        for impl in manager.hook.pml_commands.get_hookimpls():
            if impl.plugin is plugin:
                try:
                    before = set(subcommands.choices)
                    impl.function(subcommands)
                    for command in set(subcommands.choices) - before:
                        prepare(subcommands.choices[command], name)
                except Exception as exc:
                    print(f"pml: plugin {name!r} adds no commands: {exc!r}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``pml``; the exit status. A mistake of the user's is a message, never a traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser(words)
    arguments = parser.parse_args(words)
    if arguments.version:
        from importlib.metadata import version

        print(f"pml {version('pml-core')}")
        return 0
    run = getattr(arguments, "run", None)
    if run is None:
        parser.print_help(sys.stderr)
        return 2
    return _reported(run, arguments)


def _reported(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command; a mistake of the user's becomes a message and an exit status."""
    try:
        if not systems.gateway_runs_here():
            _tell_of_system(arguments)
        return run(arguments)
    except OperatorError as exc:
        print(f"pml: {exc.message}", file=sys.stderr)
        if exc.remedy:
            print(f"     {exc.remedy}", file=sys.stderr)
        return exc.exit_status
    except InvalidArguments as exc:
        print("\n     ".join(f"pml: {exc}".splitlines()), file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130


def _tell_of_system(arguments: argparse.Namespace) -> None:
    """Say that no gateway runs on this system.

    Raises:
        OperatorError: The command starts one, or servers.
    """
    if getattr(arguments, "needs_gateway", False) or getattr(arguments, "connect", False):
        raise OperatorError(f"this is Windows; {systems.SUPPORTED}", systems.REMEDY)
    print(f"pml: this is Windows; {systems.SUPPORTED}", file=sys.stderr)
