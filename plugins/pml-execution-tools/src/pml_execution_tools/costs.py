"""``pml executions costs``: what executions cost. Days are those of whoever sits at the terminal."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from pml_hookspecs import ExecutionQuery, InvalidArguments, replace

from .records import EVERYTHING, zulu
from .units import add_times, times_of

if TYPE_CHECKING:
    from pml_hookspecs import Executions, Grouping, Services, Total

    from .screen import Columns

LONGEST_DAYS = 3660
GROUPINGS = {name: name for name in ("agent", "person", "tool", "server", "key", "day")} | {"person": "principal"}
"""What people say, and what stores do."""
ONE_DAY = timedelta(days=1)


def add(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--by", choices=list(GROUPINGS), default="agent", help="what to add up by")
    parser.add_argument("--per-day", action="store_true", help="each day by itself")
    parser.add_argument("--days", type=float, default=30, metavar="N", help="how far to look back [days]")
    parser.add_argument("--agent", metavar="NAME", help="of this agent only")
    add_times(parser)


async def run(arguments: argparse.Namespace, services: Services) -> int:
    """Answer the command.

    Raises:
        InvalidArguments: A time is none, or there is none between them.
    """
    from .screen import say, say_json

    by = cast("Grouping", GROUPINGS[arguments.by])
    query, per_day = _asked(arguments, by), arguments.per_day or by == "day"
    executions = services.store.executions
    # Of a day, whatever it is split by adds up to the same.
    split: Grouping = "agent" if by == "day" else by
    rows = await _per_day(executions, query, split) if per_day else [("", await executions.totals(query, split))]
    if by == "day":
        rows = [("", [_added_up(day, totals)]) for day, totals in rows if totals]
    if by in ("tool", "server"):
        rows = [(day, [total for total in totals if total.group]) for day, totals in rows]
    if arguments.json:
        found = [{**({"day": day} if day else {}), **asdict(total)} for day, totals in rows for total in totals]
        times = {
            "since": None if query.since is None else zulu(query.since),
            "until": None if query.until is None else zulu(query.until),
            "time_zone": zone(),
        }
        say_json({"by": arguments.by, **times, "totals": found})
    elif not any(totals for _, totals in rows):
        say("Nothing ran that fits.")
    else:
        _show(arguments.by, rows)
        since = "" if query.since is None else f"From {query.since.astimezone():%Y-%m-%d %H:%M}"
        until = "now" if query.until is None else f"{query.until.astimezone():%Y-%m-%d %H:%M}"
        say(f"{since} to {until}, days and times of {zone()}.")
    return 0


def zone() -> str:
    """The zone that this machine shows times in, as ``CET (UTC+01:00)``."""
    now = datetime.now(UTC).astimezone()
    return f"{now:%Z} (UTC{now.isoformat()[-6:]})"


def _asked(arguments: argparse.Namespace, by: Grouping) -> ExecutionQuery:
    from .history import span

    if not 0 < arguments.days <= LONGEST_DAYS:
        raise InvalidArguments(f"--days must be more than 0 and at most {LONGEST_DAYS}, not {arguments.days:g}")
    since, until = span({"hours": 24 * arguments.days, **times_of(arguments)})
    # What a workflow costs has in it what its tools cost: only one of the two may count.
    nested = by in ("tool", "server")
    return ExecutionQuery(
        scope=EVERYTHING, since=since, until=until, agent=arguments.agent, include_dry_runs=False, top_level=not nested
    )


async def _per_day(
    executions: Executions, query: ExecutionQuery, by: Grouping
) -> list[tuple[str, Sequence[Total]]]:  # fmt: skip
    """Sums of each day here on which anything ran; stores have days of UTC, of which one has parts of two here."""
    there = {date.fromisoformat(total.group) for total in await executions.totals(query, "day")}
    here = sorted({day + off for day in there for off in (-ONE_DAY, timedelta(), ONE_DAY)})
    found = []
    for day in here:
        begins, ends = _midnight(day), _midnight(day + ONE_DAY)
        begins = begins if query.since is None else max(begins, query.since)
        ends = ends if query.until is None else min(ends, query.until)
        totals = await executions.totals(replace(query, since=begins, until=ends), by) if begins < ends else ()
        if totals:
            found.append((day.isoformat(), totals))
    return found


def _midnight(day: date) -> datetime:
    """When a day begins here, in UTC: the clock may be put forward or back meanwhile."""
    return datetime(day.year, day.month, day.day).astimezone().astimezone(UTC)


def _added_up(group: str, totals: Sequence[Total]) -> Total:
    timed = [(t.mean_duration_ms, t.succeeded + t.failed) for t in totals if t.mean_duration_ms is not None]
    ended = sum(count for _, count in timed)
    sums: dict[str, Any] = {
        name: sum(getattr(total, name) for total in totals)
        for name in ("executions", "succeeded", "failed", "running", "cost_usd", "tokens_in", "tokens_out")
    }
    mean_ms = round(sum(mean * count for mean, count in timed) / ended) if ended else None
    return replace(totals[0], group=group, mean_duration_ms=mean_ms, **sums)


def _show(by: str, rows: Sequence[tuple[str, Sequence[Total]]]) -> None:
    from .screen import UNKNOWN, money, table, took

    def mean(total: Total) -> str:
        return UNKNOWN if total.mean_duration_ms is None else took(total.mean_duration_ms / 1000)

    days: Columns = {"day": lambda row: row[0]} if any(day for day, _ in rows) else {}
    columns: Columns = {
        **days,
        by: lambda row: row[1].group or UNKNOWN,
        "executions": lambda row: f"{row[1].executions:,}",
        "failed": lambda row: f"{row[1].failed:,}",
        "cost": lambda row: money(row[1].cost_usd),
        "tokens in": lambda row: f"{row[1].tokens_in:,}",
        "tokens out": lambda row: f"{row[1].tokens_out:,}",
        "took on average": lambda row: mean(row[1]),
    }
    table(columns, [(day, total) for day, totals in rows for total in totals])
