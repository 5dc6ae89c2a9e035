"""``pml bench``: what the installed plugins cost."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from pml_kit.terminal import print_columns, print_json

from .measures import FOUND, as_json, per_call, start_up

if TYPE_CHECKING:
    from pml_hookspecs import Services
    from pml_kit.command_line.trial import Trial

    from .measures import Calls, Cost, Figure

HEADER = ("KIND", "NAME", "START [ms]", "MODULES", "CALL [us]", "NOTE")


async def run(arguments: argparse.Namespace, services: Services, trial: Trial) -> int:
    """Measure and print."""
    costs: list[Cost] = []
    for plugin in trial.plugins:
        if plugin["state"] == FOUND:
            if not arguments.json and sys.stderr.isatty():
                sys.stderr.write(f"measuring {plugin['kind']} {plugin['name']} …\n")
            costs.append(await asyncio.to_thread(start_up, plugin, arguments.rounds))
    calls = await per_call(services, trial, rounds=arguments.rounds, calls=arguments.calls)
    for cost in costs:
        cost.call_us = calls.by_plugin.get(cost.key)
        cost.note = cost.note or calls.notes.get(cost.key, "")
    if arguments.json:
        print_json(as_json(costs, calls))
        return 0
    print_columns([_row(cost) for cost in costs], HEADER)
    _print_whole(calls, arguments)
    return 0


def _row(cost: Cost) -> tuple[str, ...]:
    modules = str(cost.modules) if cost.start_ms is not None else "-"
    figures = (_shown(cost.start_ms), modules, _shown(cost.call_us))
    return (*cost.key, *figures, cost.note)


def _shown(figure: Figure | None) -> str:
    return "-" if figure is None else f"{figure.median:.1f} ± {figure.spread / 2:.1f}"


def _print_whole(calls: Calls, arguments: argparse.Namespace) -> None:
    alone, together = calls.alone_us, calls.together_us
    more = together.median - alone.median
    sys.stdout.write(
        f"\nA call inside the gateway, without transports: {_shown(alone)} us without wrappers and tracers, "
        f"{_shown(together)} us with those in use ({more:+.1f} us, {more / alone.median:+.0%}).\n"
        f"Medians of {arguments.rounds} rounds of {arguments.calls} calls; ± half of the quartiles' distance.\n"
    )
