"""Tables for people at a terminal, columns for pipes, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from pml_kit.terminal import printable

COLOURS = {"success": "green", "failed": "red", "running": "yellow", "pending": "cyan"}
UNKNOWN = "-"
Columns: TypeAlias = Mapping[str, Callable[[Any], str]]
LEAST_WIDTH = 24
"""Least width of the column that is cut, as long as others can be left out [characters]."""


def say(text: str) -> None:
    """A line on standard output, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say_json(value: Any) -> None:
    """One JSON document, indented."""
    say(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def json_line(value: Any) -> str:
    """One line of JSON."""
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """What stores give out as bytes of JSON is a mapping, but none that the encoder knows."""
    return dict(value)


def table(columns: Columns, items: Iterable[Any], *, wide: str = "", optional: Sequence[str] = ()) -> None:
    """One row for each item.

    Args:
        columns: What stands under each header.
        items: What is shown.
        wide: The column that is cut where the terminal has no room.
        optional: Columns that are left out, the first one first, where there would be next to nothing of that one.
    """
    header = list(columns)
    clean = [[printable(text_of(item)) for text_of in columns.values()] for item in items]
    if sys.stdout.isatty():
        _for_people(header, clean, wide, optional)
        return
    widths = [max(map(len, column)) for column in zip(header, *clean, strict=True)]
    for row in (header, *clean):
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _for_people(
    header: Sequence[str], rows: Sequence[Sequence[str]], wide: str, optional: Sequence[str]
) -> None:  # fmt: skip
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    widths = {name: max(map(cell_len, column)) for name, *column in zip(header, *rows, strict=True)}
    widths = {name: max(width, cell_len(name)) for name, width in widths.items()}
    if wide:
        widths = _fitted(widths, wide, optional, console.width)
    shown = Table(box=None, pad_edge=False, header_style="dim")
    for name, width in widths.items():
        shown.add_column(name, no_wrap=True, overflow="ellipsis", width=width)
    for row in rows:
        cells = dict(zip(header, row, strict=True))
        shown.add_row(*(Text(cells[name], style=COLOURS.get(cells[name], "")) for name in widths))
    console.print(shown)


def _fitted(widths: Mapping[str, int], wide: str, optional: Sequence[str], room: int) -> dict[str, int]:
    kept, names = dict(widths), list(optional)
    while True:
        # Two spaces after every column but the last.
        left = room - sum(width + 2 for name, width in kept.items() if name != wide)
        if left >= min(kept[wide], LEAST_WIDTH) or not names:
            return {**kept, wide: min(kept[wide], max(left, 1))}
        kept.pop(names.pop(0), None)


def at(zulu: str | None) -> str:
    """A time in the zone of whoever reads it, to the second."""
    return UNKNOWN if zulu is None else f"{datetime.fromisoformat(zulu).astimezone():%m-%d %H:%M:%S}"


def took(seconds: float | None) -> str:
    """How long, as short as it can be said."""
    if seconds is None:
        return UNKNOWN
    minute = 60
    if seconds < minute:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), minute)
    hours, minutes = divmod(minutes, minute)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def money(cost_usd: float | None) -> str:
    """Dollars; small amounts to four digits, so that they are not shown as nothing."""
    if cost_usd is None:
        return UNKNOWN
    return f"${cost_usd:,.2f}" if cost_usd >= 1 or not cost_usd else f"${cost_usd:.4f}"


def percent(rate: float | None) -> str:
    """A rate with one decimal."""
    return UNKNOWN if rate is None else f"{rate:.1f} %"


def agent_of(item: Mapping[str, Any]) -> str:
    """Its agent."""
    return item["agent_name"] or UNKNOWN


EXECUTION: Columns = {
    "started": lambda one: at(one["started_at"]),
    "agent": agent_of,
    "status": lambda one: str(one["status"]),
    "trigger": lambda one: str(one["triggered_by"]),
    "took": lambda one: took(one["duration_seconds"]),
    "cost": lambda one: money(one["cost_usd"]),
    "message": lambda one: ("(rehearsed) " if one.get("dry_run") else "") + one["message"],
    "id": lambda one: str(one["id"]),
}
"""A line of a list of executions."""
OPTIONAL = ("trigger", "cost", "took", "started")
