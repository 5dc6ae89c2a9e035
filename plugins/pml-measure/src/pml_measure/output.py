"""What is said to people: lines, and tables, at once or on a screen that is refreshed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pml_kit.terminal import printable

TEXTS = frozenset({"MODE", "SERVER", "TOOL", "AGENT", "WEEK", "ROW", "ENDPOINT", "TIME", "WHAT", "STATUS"})
"""Titles of columns that have no numbers."""
LEAST_WIDTH = 8
"""Characters of a column that makes room."""


@contextmanager
def working() -> Iterator[Callable[[str], None]]:
    """Tells on standard error, if that is a terminal, what is being done."""
    from rich.console import Console

    with Console(stderr=True).status("") as shown:
        yield shown.update


def say(text: str = "") -> None:
    """A line on standard output."""
    sys.stdout.write(printable(text) + "\n")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output."""
    for line in table(header, rows):
        sys.stdout.write(f"{line}\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]], room: int | None = None) -> Iterator[str]:
    """Columns as wide as their widest cell, texts to the left, numbers and what no title names to the right.

    Args:
        header: Titles.
        rows: Cells, as others wrote them.
        room: Longest line, for which the widest texts are cut; None for any [characters].
    """
    shown = [list(header), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    texts = [n for n, title in enumerate(header) if title in TEXTS]
    while room is not None and sum(widths) + 2 * (len(widths) - 1) > room:
        widest = max(texts, key=widths.__getitem__)
        if widths[widest] <= LEAST_WIDTH:
            break
        widths[widest] -= 1
    for row in shown:
        cells = [
            cell if len(cell) <= width else f"{cell[: width - 1]}…" for cell, width in zip(row, widths, strict=True)
        ]
        aligned = (
            cell.ljust(width) if n in texts else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        yield "  ".join(aligned).rstrip()


def number(value: float) -> str:
    """A whole number with its thousands apart."""
    return f"{round(value):,}"


def share(value: float | None) -> str:
    """A share in percent; a dash for none."""
    return "-" if value is None else f"{100 * value:.1f} %"
