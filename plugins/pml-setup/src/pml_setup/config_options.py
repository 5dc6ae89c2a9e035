"""``pml config --preset``, ``--wizard`` and ``presets``: what changes a configuration file."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_kit.command_line.commands import JSON, add_sources, config_command, verbs_of
from pml_kit.errors import OperatorError
from pml_kit.terminal import print_columns, print_json

if TYPE_CHECKING:
    from pml_clients.configuration.view import ConfigurationFiles

ONLY_FOR_CHANGES = ("to", "user", "project", "print", "dry_run", "yes", "answers", "answer")


def add(subcommands: Any) -> None:
    """Add to ``pml config``."""
    parser = config_command(subcommands)
    changes = (
        "With --preset or --wizard: change the configuration file; what changes is shown, and the file as it was is "
        "kept beside it."
    )
    parser.description = f"{parser.description or ''} {changes}".strip()
    task = parser.add_mutually_exclusive_group()
    task.add_argument("--preset", metavar="NAME", help="set the values of a preset; pml config presets lists them")
    task.add_argument("--wizard", action="store_true", help="answer some questions, and set what they come to")
    parser.add_argument("--answers", type=Path, metavar="FILE", help="with --wizard: answers as TOML, YAML or JSON")
    parser.add_argument(
        "--answer", action="append", default=[], metavar="QUESTION=ANSWER", help="with --wizard: one answer"
    )
    group = parser.add_argument_group("with --preset or --wizard")
    where = group.add_mutually_exclusive_group()
    where.add_argument("--to", type=Path, metavar="FILE", help="write this file")
    where.add_argument("--user", action="store_true", help="write the user's file")
    where.add_argument("--project", action="store_true", help="write the project's file")
    group.add_argument("--print", action="store_true", help="print the values, write nothing")
    group.add_argument("--dry-run", action="store_true", help="show the change, write nothing")
    group.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(run_on_files=_run)
    text = "the presets there are, and what each sets"
    listing: argparse.ArgumentParser = verbs_of(parser).add_parser("presets", help=text, description=text)
    add_sources(listing, below=True)
    listing.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=JSON)
    listing.set_defaults(run=run_presets)


def _run(arguments: argparse.Namespace, files: ConfigurationFiles) -> int | None:
    """Change the file as asked; None where nothing is to be changed."""
    from . import wizard

    if arguments.wizard:
        return wizard.run(arguments, files)
    if arguments.preset is not None:
        return _run_preset(arguments, files)
    if misplaced := [f"--{name.replace('_', '-')}" for name in ONLY_FOR_CHANGES if getattr(arguments, name)]:
        raise OperatorError(f"{misplaced[0]}: means something only with --preset or --wizard", "Add one of them.")
    return None


def run_presets(arguments: argparse.Namespace) -> int:
    """Print the presets."""
    from pml_clients.configuration import presets

    found = list(presets.known(Path.cwd()).values())
    if arguments.json:
        print_json([preset.as_json() for preset in found])
        return 0
    rows = [(p.name, ", ".join(p.aliases) or "-", p.mode, p.about) for p in found]
    print_columns(rows, ("PRESET", "ALSO", "MODE", "FOR"))
    return 0


def _run_preset(arguments: argparse.Namespace, files: ConfigurationFiles) -> int:
    """Make the configuration say what a preset does."""
    from pml_clients.configuration import changes, presets

    from . import config_change

    if arguments.answers is not None or arguments.answer:
        raise OperatorError("--answers: means something only with --wizard", "Leave it out.")
    preset = presets.named(arguments.preset, Path.cwd())
    change = changes.make(config_change.target(arguments), preset.values, files)
    if preset.mode:
        change = replace(change, notes=(*change.notes, *files.doubts(preset.mode)))
    return config_change.apply(change, arguments, {"preset": preset.name}, files)
