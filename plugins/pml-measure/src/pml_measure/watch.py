"""``pml metrics --watch``: what is in the clients' contexts, and what comes into them, while it happens."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments
from pml_kit.offers import VIEWS, required

from .counting import Counter, counter
from .modes import Sizes, Variant
from .output import number, table
from .queries import records
from .usage import USAGE, Report, answer_tokens, in_order, summary, usage_rows

if TYPE_CHECKING:
    import argparse

    from rich.console import Console, RenderableType

    from pml_hookspecs import ExecutionRecord, Services

LEAST_INTERVAL_S = 0.2
RECENTLY = timedelta(hours=1)
UNFINISHED = timedelta(minutes=10)
"""An execution that began so long before the newest one is looked at again: it may have ended since."""
LATEST = 12
"""Executions shown."""


@dataclass(frozen=True, slots=True)
class EndpointNow:
    """What the clients of one endpoint have in their contexts."""

    endpoint: str
    mode: str
    tools: int
    list_tokens: int
    """Tokens of the list without a hint of the client's own, once in each conversation."""
    calls: int
    searches: int
    answer_tokens: int
    """Tokens of the answers within :data:`RECENTLY`, in all conversations together."""

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        counts = {"calls": self.calls, "searches": self.searches, "answer_tokens": self.answer_tokens}
        return {
            "endpoint": self.endpoint,
            "mode": self.mode,
            "tools": self.tools,
            "list_tokens": self.list_tokens,
            "last_hour": counts,
        }


class Feed:
    """The executions of some days, kept up to date; each refresh reads what is new."""

    def __init__(self, services: Services, days: int, count: Counter) -> None:
        self._services, self._days, self._count = services, days, count
        self._records: dict[str, ExecutionRecord] = {}
        self._tokens: dict[str, tuple[str, int]] = {}

    async def refresh(self) -> None:
        """Read what began or ended since the last time, and forget what is older than those days."""
        since = datetime.now(UTC) - timedelta(days=self._days)
        self._records = {id: one for id, one in self._records.items() if one.started_at >= since}
        self._tokens = {id: counted for id, counted in self._tokens.items() if id in self._records}
        if self._records:
            since = max(since, max(one.started_at for one in self._records.values()) - UNFINISHED)
        async for record in records(self._services, since):
            self._records[record.id] = record

    @property
    def latest_first(self) -> list[ExecutionRecord]:
        """All executions that are kept, the latest first."""
        return sorted(self._records.values(), key=lambda one: (one.started_at, one.id), reverse=True)

    def tokens_of(self, record: ExecutionRecord) -> int:
        """Tokens of the answer, counted once."""
        status, tokens = self._tokens.get(record.id, ("", 0))
        if status != record.status:
            tokens = answer_tokens(record, self._count)
            self._tokens[record.id] = (record.status, tokens)
        return tokens


async def watch(arguments: argparse.Namespace, services: Services, console: Console | None = None) -> int:
    """Show it until interrupted; with ``--json`` a line each time. Never returns.

    Raises:
        InvalidArguments: The interval is too short, or there is no terminal to show it on.
    """
    if arguments.interval < LEAST_INTERVAL_S:
        raise InvalidArguments(f"--interval {arguments.interval:g}: give {LEAST_INTERVAL_S:g} or more.")
    feed = Feed(services, arguments.days, counter(arguments.tokenizer))
    sizes = Sizes(services, counter(arguments.tokenizer))
    if arguments.json:
        while True:
            report, endpoints = await _now(feed, services, sizes)
            told = {"at": datetime.now(UTC).isoformat(), "now": [one.as_json() for one in endpoints]}
            sys.stdout.write(json.dumps({**told, **report.as_json()}, ensure_ascii=False) + "\n")
            sys.stdout.flush()
            await asyncio.sleep(arguments.interval)
    from rich.console import Console
    from rich.live import Live

    console = console or Console()
    if not console.is_terminal:
        raise InvalidArguments("--watch: standard output is no terminal; add --json for one line each time.")
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            report, endpoints = await _now(feed, services, sizes)
            live.update(_screen(report, endpoints, feed, arguments.days, console.width), refresh=True)
            await asyncio.sleep(arguments.interval)


async def _now(feed: Feed, services: Services, sizes: Sizes) -> tuple[Report, list[EndpointNow]]:
    await feed.refresh()
    found = feed.latest_first
    report = summary(found, feed.tokens_of)
    since = datetime.now(UTC) - RECENTLY
    recent = [record for record in found if record.started_at >= since]
    return report, [
        await _endpoint(view.endpoint, view.mode, view.intent, recent, feed, services, sizes)
        for view in required(services, VIEWS).endpoints()
    ]


async def _endpoint(
    name: str, mode: str, intent: str, recent: Sequence[ExecutionRecord], feed: Feed, services: Services, sizes: Sizes
) -> EndpointNow:  # fmt: skip
    listed = await Variant(name, mode, intent).listed(services)
    usage = summary([record for record in recent if record.endpoint == name], feed.tokens_of).total
    counts = (usage.calls, usage.ways["search"], usage.answer_tokens)
    return EndpointNow(name, mode, len(listed), sizes.all(listed), *counts)


def _screen(report: Report, endpoints: Sequence[EndpointNow], feed: Feed, days: int, room: int) -> RenderableType:
    from rich.text import Text

    now = datetime.now().astimezone()
    numbers = ("TOOLS", "LIST TOKENS", "CALLS 1 H", "SEARCHES 1 H", "ANSWER TOKENS 1 H")
    counts = [(one.tools, one.list_tokens, one.calls, one.searches, one.answer_tokens) for one in endpoints]
    context = [(one.endpoint, one.mode, *map(number, each)) for one, each in zip(endpoints, counts, strict=True)]
    used = usage_rows([*in_order(report.modes), ("all", report.total)])
    latest = [_latest(record, feed) for record in feed.latest_first[:LATEST]]
    lines = [
        f"PML, {now:%Y-%m-%d %H:%M:%S}. Nothing leaves this machine. Ctrl-C ends it.",
        *("", "In the context", *table(("ENDPOINT", "MODE", *numbers), context, room)),
        *("", f"Modes, last {days} days", *table(("MODE", *USAGE), used, room)),
        *("", "Latest", *table(("TIME", "AGENT", "WHAT", "MODE", "STATUS", "MS", "TOKENS"), latest, room)),
        *("", f"Changes of mode: {report.adoption.conversion()}."),
    ]
    return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")


def _latest(record: ExecutionRecord, feed: Feed) -> tuple[str, ...]:
    took = "" if record.duration_ms is None else number(record.duration_ms)
    began, what = f"{record.started_at.astimezone():%H:%M:%S}", record.target or record.kind
    who, mode = record.agent or "-", record.mode or "-"
    return began, who, what, mode, str(record.status), took, number(feed.tokens_of(record))
