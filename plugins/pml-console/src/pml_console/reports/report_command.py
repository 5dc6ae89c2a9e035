"""``pml report``: what happened, on the terminal, as a page to mail, or as JSON."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_console.templates import Templates, money
from pml_hookspecs import InvalidArguments
from pml_kit.command_line.moments import moment
from pml_kit.terminal import print_table

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import Services


def add(subcommands: Any) -> None:
    """Add the command."""
    parser = subcommands.add_parser("report", help="what happened, what it cost and what failed, since yesterday")
    parser.add_argument(
        "--since",
        default="24h",
        metavar="WHEN",
        help="from when on: yesterday, today, an age such as 12h, or a time; 24h if not given",
    )
    parser.add_argument("--until", metavar="WHEN", help="until when; now if not given")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--html", type=Path, metavar="FILE", help="write one page there that can be mailed as it is")
    parser.add_argument(
        "--base-url", metavar="URL", default="", help="of the gateway, such as https://pml.test: links lead there"
    )
    form.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run_with=run)


async def run(arguments: argparse.Namespace, services: Services) -> int:
    """Tell it; 0."""
    from .report import report_of

    now = datetime.now(UTC)
    since = moment(_day(arguments.since, now), "--since", now, local=True)
    until = moment(_day(arguments.until, now), "--until", now, local=True) if arguments.until else now
    if since >= until:
        raise InvalidArguments("--since must be before --until")
    base_url = _base_url(arguments.base_url)
    report = await report_of(services.store, since, until)
    if arguments.json:
        print(json.dumps(report, indent=2, ensure_ascii=False))  # noqa: T201 - the command's result
    elif arguments.html is not None:
        arguments.html.write_text(Templates().render("mail.html", report=report, base_url=base_url), encoding="utf-8")
        print(f"written to {arguments.html}", file=sys.stderr)  # noqa: T201
    else:
        _show(report)
    return 0


def _base_url(text: str) -> str:
    """What links begin with, without the last slash; ``""`` for no links.

    Raises:
        InvalidArguments: It is no address of the web.
    """
    if text and not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", text):
        raise InvalidArguments(f"--base-url {text[:100]!r}: give where the gateway is, such as https://pml.test")
    return text.rstrip("/")


def _day(text: str, now: datetime) -> str:
    """``yesterday`` and ``today`` as dates on this machine; anything else as it is."""
    days = {"today": 0, "yesterday": 1}.get(text.strip().lower())
    return text if days is None else str(now.astimezone().date() - timedelta(days=days))


def _show(report: dict[str, Any]) -> None:
    counts = f"{report['runs']:,} runs, {report['succeeded']:,} succeeded, {report['failed']:,} failed"
    print(f"{counts}, {money(report['cost_usd'])}")  # noqa: T201
    for title in ("agents", "people", "tools"):
        if rows := report[title]:
            cells = [[row["name"], f"{row['runs']:,}", f"{row['failed']:,}", money(row["cost_usd"])] for row in rows]
            print()  # noqa: T201
            print_table([title, "runs", "failed", "cost"], cells)
    if rows := report["approvals"]:
        print()  # noqa: T201
        cells = [[one["answer"], one["by"], one["agent"] or one["for"], one["target"]] for one in rows]
        print_table(["answer", "by", "for", "what"], cells)
    if rows := report["news"]:
        print()  # noqa: T201
        print_table(
            ["new", "name", "differs in"], [[one["what"], one["name"], ", ".join(one["fields"])] for one in rows]
        )
    if report["failures"]:
        print()  # noqa: T201
        rows = [[f"{one['times']:,}", one["who"], one["what"], one["why"]] for one in report["failures"]]
        print_table(["times", "who", "what failed", "why"], rows)
