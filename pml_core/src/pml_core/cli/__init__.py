"""The ``pml`` command."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments
from pml_kit.command_line import systems
from pml_kit.errors import OperatorError

if TYPE_CHECKING:
    from pml_core.plugins.registry import Record

CORE_COMMANDS = {"serve": "serve"}
"""Commands and their modules."""


def build_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for ``argv``. Of plugins only those are imported that may have what is asked for."""
    from pml_core import __doc__ as about
    from pml_kit.command_line.commands import distributions_of

    parser = argparse.ArgumentParser(prog="pml", description=about)
    parser.add_argument("--version", action="store_true", help="print the version")
    subcommands = parser.add_subparsers(metavar="COMMAND", title="commands")
    asked = argv[0] if argv else ""
    bringing = distributions_of(asked)
    # Only what was asked for is imported: a client waits for `pml serve`.
    for command, module in CORE_COMMANDS.items():
        if asked == command or (asked not in CORE_COMMANDS and not bringing):
            importlib.import_module(f"{__name__}.{module}").add(subcommands)
    if asked not in CORE_COMMANDS:
        _add_plugin_commands(parser, subcommands, argv, bringing)
    return parser


def _add_plugin_commands(
    parser: argparse.ArgumentParser, subcommands: Any, words: Sequence[str], bringing: Sequence[str]
) -> None:
    """Add what plugins have: those that bring what is asked for, or, where that is not known, all.

    Ends the process with a line about what to install, where one that is known to bring it is not here.
    """
    from pml_core.plugins.registry import discover
    from pml_kit.command_line.commands import missing

    records = discover()
    known = [record for record in records if record.dist in bringing]
    added = add_commands(subcommands, known or records)
    for record in known:
        if record.problem:
            print(f"pml: {record.label}: {record.problem}. {record.remedy}", file=sys.stderr)
    other = words[:1] and words[0] in added and not known
    if not other and (line := missing(words, [record.dist for record in known])):
        parser.exit(2, f"pml: {line}\n")


def add_commands(subcommands: Any, records: Sequence[Record]) -> Mapping[str, str]:
    """Add the commands of plugins, and what they add to those of each other; by command, whose it is.

    A plugin that cannot add its own is told of.
    """
    from pml_core.plugins.hooks import HookManager

    from .with_services import prepare, with_verbs

    manager = HookManager()
    manager.load(records)
    before = set(subcommands.choices)
    owners: dict[argparse.ArgumentParser, str] = {}
    for name, plugin in sorted(manager.list_name_plugin()):
        for impl in manager.hook.pml_commands.get_hookimpls():
            if impl.plugin is plugin:
                try:
                    impl.function(subcommands)
                except Exception as exc:
                    print(f"pml: plugin {name!r} adds no commands: {exc!r}", file=sys.stderr)
                for command in set(subcommands.choices) - before:
                    for parser in with_verbs(subcommands.choices[command]):
                        owners.setdefault(parser, name)
    # Once all have added to them: one may do what another's function does not.
    for parser, name in owners.items():
        prepare(parser, name)
    return {command: owners[subcommands.choices[command]] for command in set(subcommands.choices) - before}


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``pml``; the exit status. A mistake of the user's is a message, never a traceback."""
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except ImportError:
        from pml_core.plugins.registry import mismatches

        if not (found := mismatches("pml-core")):
            raise
        print(f"pml: pml-core {found}: upgrade both: pip install --upgrade pml-gateway", file=sys.stderr)
        return 2


def _run(words: Sequence[str]) -> int:
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
    return _reported(run, arguments, words)


def _reported(
    run: Callable[[argparse.Namespace], int | None], arguments: argparse.Namespace, words: Sequence[str]
) -> int:  # fmt: skip
    """Run a command; a mistake of the user's becomes a message and an exit status."""
    try:
        if not systems.gateway_runs_here():
            _tell_of_system(arguments)
        status = run(arguments)
        if status is None:
            from pml_kit.command_line.commands import missing

            raise OperatorError(missing(words, ()) or "no plugin that is installed does this")
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
    return status


def _tell_of_system(arguments: argparse.Namespace) -> None:
    """Say that no gateway runs on this system.

    Raises:
        OperatorError: The command starts one, or servers.
    """
    if getattr(arguments, "needs_gateway", False) or getattr(arguments, "connect", False):
        raise OperatorError(f"this is Windows; {systems.SUPPORTED}", systems.REMEDY)
    print(f"pml: this is Windows; {systems.SUPPORTED}", file=sys.stderr)
