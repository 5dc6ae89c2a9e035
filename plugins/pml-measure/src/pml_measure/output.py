"""Tables for people, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pml_kit.terminal import printable


@contextmanager
def working() -> Iterator[Callable[[str], None]]:
    """Tells on standard error, if that is a terminal, what is being done."""
    from rich.console import Console

    with Console(stderr=True).status("") as shown:
        yield shown.update


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def say(text: str = "") -> None:
    """A line on standard output."""
    sys.stdout.write(printable(text) + "\n")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as their widest cell: the first to the left, numbers to the right."""
    table = [list(header), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[n]) for row in table) for n in range(len(header))]
    for row in table:
        cells = [
            cell.rjust(width) if _right(header[n]) else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def number(value: float) -> str:
    """A whole number with its thousands apart."""
    return f"{round(value):,}"


def share(value: float | None) -> str:
    """A share in percent; a dash for none."""
    return "-" if value is None else f"{100 * value:.1f} %"


def _right(title: str) -> bool:
    return title.isupper() and title not in ("MODE", "SERVER", "TOOL", "WAY", "AGENT", "WEEK", "ROW", "ENDPOINT")
