"""``pml bench``: what the installed plugins cost."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from . import add_sources, load_as_told
from .output import print_columns

if TYPE_CHECKING:
    from .bench_measures import Calls, Cost, Figure

HEADER = ("KIND", "NAME", "START [ms]", "MODULES", "CALL [us]", "NOTE")
ABOUT = (
    "Start: import, and construction of a driver, in a new process. Call: processor time that a call costs more with "
    "it, what is written later included; of a store, keeping the execution. Medians of rounds, ± half of what lies "
    "between the quartiles. What is kept meanwhile is kept in memory, but for stores, and no server is started."
)


def add(subcommands: Any) -> None:
    """Add the command."""
    parser = subcommands.add_parser("bench", help="measure what the installed plugins cost")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    plugins: argparse.ArgumentParser = verbs.add_parser(
        "plugins", help="start-up and per-call cost of each installed plugin", description=ABOUT
    )
    add_sources(plugins)
    plugins.add_argument("--rounds", type=_positive, default=5, metavar="N", help="times that each is measured")
    plugins.add_argument("--calls", type=_positive, default=2000, metavar="N", help="calls in one round")
    plugins.add_argument("--json", action="store_true", help="one JSON document")
    plugins.set_defaults(run=run_plugins)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def run_plugins(arguments: argparse.Namespace) -> int:
    """Measure and print."""
    from pml_core import local_plugins
    from pml_core.registry import State

    from .bench_measures import as_json, per_call, start_up

    config = load_as_told(arguments)
    costs: list[Cost] = []
    for record in local_plugins.found(config):
        if record.state is State.FOUND:
            if not arguments.json and sys.stderr.isatty():
                print(f"measuring {record.kind} {record.name} …", file=sys.stderr)
            costs.append(start_up(record, arguments.rounds))
    calls = per_call(config, rounds=arguments.rounds, calls=arguments.calls)
    for cost in costs:
        key = (cost.record.kind, cost.record.name)
        cost.call_us = calls.by_plugin.get(key)
        cost.note = cost.note or calls.notes.get(key, "")
    if arguments.json:
        print(as_json(costs, calls))
        return 0
    print_columns([_row(cost) for cost in costs], HEADER)
    _print_whole(calls, arguments)
    return 0


def _row(cost: Cost) -> tuple[str, ...]:
    modules = str(cost.modules) if cost.start_ms is not None else "-"
    figures = (_shown(cost.start_ms), modules, _shown(cost.call_us))
    return (cost.record.kind, cost.record.name, *figures, cost.note)


def _shown(figure: Figure | None) -> str:
    return "-" if figure is None else f"{figure.median:.1f} ± {figure.spread / 2:.1f}"


def _print_whole(calls: Calls, arguments: argparse.Namespace) -> None:
    alone, together = calls.alone_us, calls.together_us
    more = together.median - alone.median
    print(
        f"\nA call inside the gateway, without transports: {_shown(alone)} us without wrappers and tracers, "
        f"{_shown(together)} us with those in use ({more:+.1f} us, {more / alone.median:+.0%})."
    )
    print(f"Medians of {arguments.rounds} rounds of {arguments.calls} calls; ± half of the quartiles' distance.")
