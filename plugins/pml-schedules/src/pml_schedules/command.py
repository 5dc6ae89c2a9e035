"""``pml schedules``: the command line. Imported by every ``pml --help``."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pml_hookspecs import Services

    Function = Callable[[argparse.Namespace, Services], Awaitable[int]]


def add(subcommands: Any) -> None:
    """Add the command and its verbs."""
    about = "run workflows, agents, capabilities and tools at certain times"
    parser = subcommands.add_parser("schedules", help=about, description=f"{about[0].upper()}{about[1:]}.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    _add(_verb(verbs, "add", "make a schedule"))
    _verb(verbs, "list", "all schedules, with their next and last runs")
    _named(_verb(verbs, "show", "all of one schedule"))
    _named(_verb(verbs, "pause", "begin no further run"))
    _named(_verb(verbs, "resume", "go on from now; what was due meanwhile was not missed"))
    run_now = _verb(verbs, "run-now", "run once, besides its times; a gateway on the same store begins it")
    _named(run_now)
    run_now.add_argument("--wait-s", type=float, default=0.0, metavar="S", help="wait so long until it has ended [s]")
    _named(_verb(verbs, "remove", "forget a schedule; runs under way go on"))
    history = _verb(verbs, "history", "the runs of one schedule, last first")
    _named(history)
    history.add_argument("--limit", type=int, default=20, metavar="N", help="at most so many [1 to 1000]")


def _verb(verbs: Any, name: str, about: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run_with=_later("list_all" if name == "list" else name.replace("-", "_")))
    return parser


def _later(function: str) -> Function:
    async def call(arguments: argparse.Namespace, services: Services) -> int:
        from . import commands

        status: int = await getattr(commands, function)(arguments, services)
        return status

    return call


def _named(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")


def _add(parser: argparse.ArgumentParser) -> None:
    _named(parser)
    when = parser.add_argument_group("when")
    when.add_argument("--cron", default="", metavar="EXPR", help="minute hour day month weekday: '30 7 * * MON-FRI'")
    when.add_argument("--time-zone", default="", metavar="ZONE", help="of --cron, such as Europe/Berlin")
    when.add_argument("--every", default="", metavar="TIME", help="such as 90s, 15m, 2h or 7d")
    when.add_argument("--start", default="", metavar="TIME", help="not before; --every counts from it, else from now")
    when.add_argument("--until", default="", metavar="TIME", help="not after, such as 2026-12-24T18:00")
    when.add_argument("--max-runs", type=int, default=0, metavar="N", help="how often in all")
    when.add_argument("--jitter-s", type=float, default=0.0, metavar="S", help="each run is later by part of this [s]")
    what = parser.add_argument_group("what")
    what.add_argument("--workflow", default="", metavar="FILE", help="JSON as execute_workflow takes it; - for input")
    what.add_argument("--agent", default="", metavar="AGENT", help="a configured agent; needs --message")
    what.add_argument("--message", default="", metavar="TEXT", help="for the agent")
    what.add_argument("--capability", default="", metavar="ID", help="a learned capability")
    what.add_argument("--inputs", default="", metavar="JSON", help="of the capability")
    what.add_argument("--tool", default="", metavar="TOOL", help="such as server:tool")
    what.add_argument("--arguments", default="", metavar="JSON", help="of the tool")
    what.add_argument("--intent", default="", metavar="TEXT", help="what it is for, in the history")
    what.add_argument("--dry-run", action="store_true", help="rehearse only")
    how = parser.add_argument_group("how")
    how.add_argument("--principal", default="", help="for whom it runs")
    how.add_argument("--scope", action="append", default=[], dest="scopes", help="that it runs with; may be repeated")
    how.add_argument(
        "--missed", choices=("skip", "once", "all"), default="once", help="times at which no gateway was up"
    )
    how.add_argument("--most-missed", type=int, default=10, metavar="N", help="with --missed all: the last so many")
    how.add_argument(
        "--overlap",
        choices=("allow", "skip", "queue"),
        default="skip",
        help="times at which the run before is under way",
    )
    how.add_argument("--timeout-s", type=float, default=0.0, metavar="S", help="stop a run that takes longer [s]")
    how.add_argument("--paused", action="store_true", help="do not run until resumed")
    how.add_argument("--replace", action="store_true", help="instead of the one that has this name")
