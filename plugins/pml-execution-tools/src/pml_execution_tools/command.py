"""``pml executions``: the history in a terminal. Whoever sits at it sees everything."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_args

from pml_hookspecs import InvalidArguments
from pml_kit.command_line.moments import moment
from pml_kit.offers import report_change
from pml_kit.terminal import printable

from .client_results import MOST_FOUND, ExecutionStatus, TriggeredBy
from .definitions import LIST_RECENT_EXECUTIONS, LONGEST_TEXT, SEARCH_EXECUTIONS
from .records import EVERYTHING, PUBLIC, brief
from .units import add_times, size_bytes, times_of

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .screen import Columns

MOST_ROWS = 1000
LEAST_INTERVAL_S = 0.05


def add(subcommands: Any) -> None:
    """Add the command and its verbs."""
    from . import costs, export

    parser = subcommands.add_parser("executions", help="what ran, what it answered and what it cost")
    verbs = parser.add_subparsers(dest="verb", required=True)
    shown = _verb(verbs, "list", _list, "executions, the newest first")
    _add_filters(shown, hours=24)
    add_times(shown)
    shown.add_argument("--limit", type=int, default=20, metavar="N", help=f"most rows [1 to {MOST_ROWS}]")
    one = _verb(verbs, "show", _show, "all of one execution")
    one.add_argument("id", help="as pml executions list shows it")
    one.add_argument("--transcript", action="store_true", help="also what an agent said and did, or what ran inside")
    summary = _verb(verbs, "summary", _summary, "how agents are doing: one, or all of them")
    summary.add_argument("--agent", metavar="NAME", help="of this agent")
    summary.add_argument("--hours", type=_hours, default=24, metavar="H", help="how far to look back [1 to 168]")
    add_times(summary)
    found = _verb(verbs, "search", _search, "executions by words in what was asked, answered or went wrong")
    found.add_argument("words", nargs="+", help="words, or beginnings of words, that must all occur")
    _add_filters(found, hours=168)
    add_times(found)
    found.add_argument("--limit", type=int, default=20, metavar="N", help=f"most rows [1 to {MOST_ROWS}]")
    tail = _verb(verbs, "tail", _tail, "executions as they begin and end; Ctrl-C ends it")
    _add_filters(tail, hours=1)
    tail.add_argument("--limit", type=int, default=10, metavar="N", help=f"rows to begin with [0 to {MOST_ROWS}]")
    tail.add_argument("--interval", type=float, default=1.0, metavar="S", help="time between looks [s]")
    costs.add(_verb(verbs, "costs", costs.run, "what executions cost, by agent, person, tool, server, key or day"))
    kept = _verb(verbs, "export", export.run, "all executions that fit, for other programs")
    export.add(kept)
    _add_filters(kept, hours=None)
    add_times(kept)
    prune = _verb(verbs, "prune", _prune, "delete old executions, with transcripts and what ran inside")
    prune.add_argument("--before", metavar="AGE", help="those that began earlier: 30d, 12h, or a date")
    prune.add_argument("--keep-size", metavar="SIZE", help="the oldest, until what is stored is no larger: 500MB, 1GB")
    prune.add_argument("--dry-run", action="store_true", help="only say how many are as old as --before says")


def _verb(verbs: Any, name: str, function: Any, about: str) -> argparse.ArgumentParser:
    text = f"{about[0].upper()}{about[1:]}."
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=about, description=text)
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run_with=function)
    return parser


def _hours(text: str) -> float:
    """As JSON has it: a whole number is one."""
    value = float(text)
    return int(value) if value.is_integer() else value


def _add_filters(parser: argparse.ArgumentParser, *, hours: int | None) -> None:
    parser.add_argument("--agent", metavar="NAME", help="of this agent")
    parser.add_argument("--person", metavar="NAME", help="asked for with a key of theirs")
    parser.add_argument(
        "--tool", metavar="ID", help="calls of this tool, inside others as well: server:tool or server:*"
    )
    parser.add_argument("--status", choices=get_args(ExecutionStatus), help="in this state")
    parser.add_argument("--trigger", choices=get_args(TriggeredBy), help="made to run by this")
    if hours is not None:
        parser.add_argument("--hours", type=_hours, default=hours, metavar="H", help="how far to look back [1 to 168]")


def _given(arguments: argparse.Namespace, definition: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What the tool would be given, checked as it checks."""
    from pml_kit.mcp.arguments import checked

    filters = {"agent_name": arguments.agent, "status": arguments.status, "triggered_by": arguments.trigger}
    filters |= {"person": arguments.person, "tool": arguments.tool}
    times = times_of(arguments) if "since" in arguments else {}
    return checked(definition, {**filters, "hours": arguments.hours, **times, **more}, longest=LONGEST_TEXT)


async def _list(arguments: argparse.Namespace, services: Services) -> int:
    given = _given(arguments, LIST_RECENT_EXECUTIONS)
    return await _show_page(arguments, services, given, "Nothing ran that fits.")


async def _search(arguments: argparse.Namespace, services: Services) -> int:
    from .queries import check_words

    given = _given(arguments, SEARCH_EXECUTIONS, query=" ".join(arguments.words))
    check_words(given["query"])
    return await _show_page(arguments, services, given, "Nothing is found.")


async def _show_page(
    arguments: argparse.Namespace, services: Services, given: dict[str, Any], nothing: str
) -> int:  # fmt: skip
    from .history import listing
    from .screen import EXECUTION, OPTIONAL, say, say_json, table

    _check(arguments.limit, 1, MOST_ROWS, "--limit")
    given = {**given, "limit": min(arguments.limit, 100)}
    answer = page = await listing(services.store.executions, EVERYTHING, given)
    while "next_cursor" in page and len(answer["executions"]) < arguments.limit:
        page = await listing(services.store.executions, EVERYTHING, {**given, "cursor": page["next_cursor"]})
        answer["executions"] += page["executions"]
    del answer["executions"][arguments.limit :]
    answer.pop("next_cursor", None)
    answer["filters_applied"]["limit"] = arguments.limit
    rows = answer["executions"]
    if arguments.json:
        say_json(answer)
    elif not rows:
        say(nothing)
    else:
        table(EXECUTION, rows, wide="message", optional=OPTIONAL)
        if answer["total_count"] > len(rows):
            more = " or more" if given.get("query") and answer["total_count"] == MOST_FOUND else ""
            say(f"{len(rows)} of {answer['total_count']}{more}; --limit shows more.")
    return 0


async def _show(arguments: argparse.Namespace, services: Services) -> int:
    from .history import result
    from .screen import say_json

    given = {"agent_name": None, "execution_id": arguments.id, "include_transcript": arguments.transcript}
    try:
        found = await result(services.store.executions, EVERYTHING, given)
    except InvalidArguments:
        raise InvalidArguments(f"There is no execution {arguments.id!r}; pml executions list shows ids.") from None
    if arguments.json:
        say_json(found)
    else:
        _show_one(found["execution"])
    return 0


def _show_one(execution: dict[str, Any]) -> None:
    from .screen import UNKNOWN, at, json_line, money, say, took

    lines = {
        "id": execution["id"],
        "agent": execution["agent_name"] or UNKNOWN,
        "status": execution["status"] + (" (rehearsed)" if execution.get("dry_run") else ""),
        "message": execution["message"],
        "started": at(execution["started_at"]),
        "took": took(execution["duration_seconds"]),
        "cost": money(execution["cost_usd"]),
    }
    if execution["context_used"] is not None:
        most = UNKNOWN if execution["context_max"] is None else f"{execution['context_max']:,}"
        lines["context"] = f"{execution['context_used']:,} of {most} tokens"
    lines["tools"] = ", ".join(execution["tool_calls"]) or UNKNOWN
    for name, text in lines.items():
        say(f"{name:8} {printable(text)}")
    for name in ("error", "response"):
        if execution[name] is not None:
            value = execution[name]
            say(f"\n{name}:\n{_text(value if isinstance(value, str) else json_line(value))}")
    if "transcript" in execution:
        say("\ntranscript:")
        for line in execution["transcript"]:
            say(printable(json_line(line)))


def _text(text: str) -> str:
    """Line by line, as it may be a report."""
    return "\n".join(printable(line) for line in text.splitlines())


async def _summary(arguments: argparse.Namespace, services: Services) -> int:
    from pml_kit.mcp.arguments import checked

    from .definitions import GET_AGENT_ACTIVITY_SUMMARY
    from .history import Summaries
    from .records import AGENTS
    from .screen import say_json
    from .settings import Settings

    given = checked(GET_AGENT_ACTIVITY_SUMMARY, {"hours": arguments.hours, **times_of(arguments)})
    dry_runs = (services.settings or Settings()).dry_runs_in_summaries
    summaries = Summaries(services.store.executions, EVERYTHING, given, read=EVERYTHING, dry_runs=dry_runs)
    if arguments.agent:
        answer = await summaries.agent(arguments.agent)
    else:
        answer = await summaries.fleet({entry.name for entry in services.catalog if entry.server == AGENTS})
    if arguments.json:
        say_json(answer)
    elif arguments.agent:
        _show_agent(answer)
    else:
        _show_fleet(answer)
    return 0


def _show_agent(answer: dict[str, Any]) -> None:
    from .screen import UNKNOWN, at, money, percent, say, took

    summary = answer["summary"]
    busy = "busy" if summary["is_busy"] else "idle"
    say(f"{printable(answer['agent_name'])}: {busy}, {summary['queue_length']} waiting")
    say(_counts(summary) + f", {took(summary['avg_duration_seconds'])} on average")
    say(f"success {percent(summary['success_rate'])}, cost {money(summary['total_cost_usd'])}")
    say(f"last {at(summary['last_execution_at'])}, {summary['last_execution_status'] or UNKNOWN}")
    _show_failures(answer["recent_failures"])


def _show_fleet(answer: dict[str, Any]) -> None:
    from .screen import agent_of, money, percent, say, table

    fleet = answer["fleet_summary"]
    say(f"{fleet['agents_with_activity']} of {fleet['total_agents']} agents did something: {_counts(fleet)}")
    say(f"success {percent(fleet['success_rate'])}, cost {money(fleet['total_cost_usd'])}")
    columns: Columns = {
        "executions": lambda row: f"{row['executions']:,}",
        "success": lambda row: percent(row["success_rate"]),
        "cost": lambda row: money(row["cost_usd"]),
        "now": lambda row: str(row["status"]),
    }
    for who in ("agent", "client"):
        if rows := answer[f"by_{who}"]:
            say("")
            table({who: agent_of, **columns}, rows)
    _show_failures(answer["recent_failures"])


def _counts(summary: dict[str, Any]) -> str:
    numbers = (summary[name] for name in ("total_executions", "successful", "failed", "running"))
    return "{:,} executions, {:,} successful, {:,} failed, {:,} running".format(*numbers)


def _show_failures(failures: list[dict[str, Any]]) -> None:
    from .screen import UNKNOWN, agent_of, at, say, table

    if failures:
        say("")
        columns: Columns = {
            "failed last": lambda one: at(one["failed_at"]),
            "times": lambda one: f"{one['times']:,}",
            "agent": agent_of,
            "message": lambda one: str(one["message"]),
            "error": lambda one: brief(one["error"] or UNKNOWN),
            "id": lambda one: str(one["id"]),
        }
        table(columns, failures, wide="error", optional=("message",))


async def _tail(arguments: argparse.Namespace, services: Services) -> int:
    from .history import query_of
    from .live_feed import Feed, follow

    if arguments.interval < LEAST_INTERVAL_S:
        raise InvalidArguments(f"--interval must be {LEAST_INTERVAL_S:g} or more, not {arguments.interval:g}")
    _check(arguments.limit, 0, MOST_ROWS, "--limit")
    query = query_of(_given(arguments, LIST_RECENT_EXECUTIONS), EVERYTHING)
    feed = Feed(services.store.executions, query)
    await follow(feed, first=arguments.limit, interval_s=arguments.interval, as_json=arguments.json)
    return 0


async def _prune(arguments: argparse.Namespace, services: Services) -> int:
    from .screen import json_line, say

    if arguments.before is None and arguments.keep_size is None:
        raise InvalidArguments("Say what to delete: --before 30d, --keep-size 1GB, or both.")
    now = datetime.now(UTC)
    before = None if arguments.before is None else moment(arguments.before, "--before", now, local=True)
    keep_bytes = None if arguments.keep_size is None else size_bytes(arguments.keep_size, "--keep-size")
    if arguments.dry_run:
        if before is None or keep_bytes is not None:
            raise InvalidArguments("--dry-run counts by age: give --before, and leave out --keep-size.")
        count = await _older(services, before)
        say(json_line({"would_delete": count}) if arguments.json else f"{count:,} executions would be deleted.")
        return 0
    asked = {"before": None if before is None else before.isoformat(), "keep_bytes": keep_bytes}
    # First, because somebody who deletes might end the command before it is through.
    await report_change(services, "executions", "history.prune", asked)
    count = await services.store.executions.prune(before=before, keep_bytes=keep_bytes)
    await report_change(services, "executions", "history.pruned", {**asked, "deleted": count})
    say(json_line({"deleted": count}) if arguments.json else f"{count:,} executions are deleted.")
    return 0


async def _older(services: Services, before: datetime) -> int:
    from pml_hookspecs import ExecutionQuery

    ended = PUBLIC["success"] | PUBLIC["failed"]
    query = ExecutionQuery(scope=EVERYTHING, until=before, statuses=ended, top_level=True, limit=1)
    return (await services.store.executions.find(query)).total


def _check(value: int, least: int, most: int, option: str) -> None:
    if not least <= value <= most:
        raise InvalidArguments(f"{option} must be {least} to {most}, not {value}")
