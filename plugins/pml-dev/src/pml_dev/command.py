"""The commands' options. Imported by every ``pml --help``, so nothing heavy is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .kinds import KINDS

if TYPE_CHECKING:
    from pml_hookspecs import Services
    from pml_kit.command_line.trial import Trial

ABOUT = (
    "Start: import, and construction of a driver, in a new process. Call: processor time that a call costs more with "
    "it, what is written later included; of a store, keeping the execution. Medians of rounds, ± half of what lies "
    "between the quartiles. What is kept meanwhile is kept in memory, but for stores, and no server is started."
)


def add(subcommands: Any) -> None:
    """``pml plugin new`` and ``pml bench plugins``."""
    _add_new(subcommands.add_parser("plugin", help="begin a plugin of your own"))
    _add_bench(subcommands.add_parser("bench", help="measure what the installed plugins cost"))


def _add_new(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    text = "write a distribution that does something small, with tests that are green as they stand"
    new: argparse.ArgumentParser = verbs.add_parser("new", help=text, description=f"{text[0].upper()}{text[1:]}.")
    new.add_argument("kind", choices=KINDS, help="; ".join(f"{name}: {kind.about}" for name, kind in KINDS.items()))
    new.add_argument("name", help="what the configuration will call it, such as office_hours")
    new.add_argument("--path", type=Path, default=Path(), metavar="DIR", help="where its folder goes; here if not said")
    new.add_argument("--json", action="store_true", help="one JSON document")
    new.set_defaults(run=new_command)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    plugins: argparse.ArgumentParser = verbs.add_parser(
        "plugins", help="start-up and per-call cost of each installed plugin", description=ABOUT
    )
    plugins.add_argument("--rounds", type=_positive, default=5, metavar="N", help="times that each is measured")
    plugins.add_argument("--calls", type=_positive, default=2000, metavar="N", help="calls in one round")
    plugins.add_argument("--json", action="store_true", help="one JSON document")
    plugins.set_defaults(run_on_trial=bench_command)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def new_command(arguments: argparse.Namespace) -> int:
    """``pml plugin new``."""
    from .new import run

    return run(arguments)


async def bench_command(arguments: argparse.Namespace, services: Services, trial: Trial) -> int:
    """``pml bench plugins``."""
    from .bench import run

    return await run(arguments, services, trial)
