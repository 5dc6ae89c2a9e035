"""Tables for people at a terminal, columns for pipes, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pml_kit.terminal import printable

COLOURS = {"success": "green", "failed": "red", "running": "yellow", "pending": "cyan"}
UNKNOWN = "-"
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


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, wide: str = "", optional: Sequence[str] = ()
) -> None:
    """Rows under a header.

    Args:
        header: Names of columns.
        rows: Texts.
        wide: The column that is cut where the terminal has no room.
        optional: Columns that are left out, the first one first, where there would be next to nothing of that one.
    """
    clean = [[printable(cell) for cell in row] for row in rows]
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


def row_of(execution: Mapping[str, Any]) -> list[str]:
    """One execution as a row under :data:`EXECUTION_HEADER`."""
    return [
        at(execution["started_at"]),
        execution["agent_name"] or UNKNOWN,
        execution["status"],
        execution["triggered_by"],
        took(execution["duration_seconds"]),
        money(execution["cost_usd"]),
        ("(rehearsed) " if execution.get("dry_run") else "") + execution["message"],
        execution["id"],
    ]


EXECUTION_HEADER = ("started", "agent", "status", "trigger", "took", "cost", "message", "id")
OPTIONAL = ("trigger", "cost", "took", "started")
