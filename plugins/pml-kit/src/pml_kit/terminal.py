"""What commands print: words of others shown and never obeyed, tables for people, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


def answer_to(question: str) -> bool | None:
    """Whether whoever sits at the terminal says yes; None where nobody does, or the input has ended."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        sys.stdout.write("\n")
        return None


def print_columns(rows: Iterable[Sequence[str]], header: Sequence[str] = ()) -> None:
    """Rows in columns as wide as their widest cell; the last one runs on."""
    table = [list(header), *map(list, rows)] if header else [list(row) for row in rows]
    if not table:
        return
    widths = [max(len(row[n]) for row in table) for n in range(len(table[0]) - 1)]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        sys.stdout.write("  ".join([*cells, row[-1]]).rstrip() + "\n")


def printable(text: str, *, keep: str = "") -> str:
    r"""``text`` with escapes, such as ``\x1b``, for what a terminal would obey or nobody would see.

    That is every character that :meth:`str.isprintable` denies, those that turn the direction of reading among them.
    Line feeds and tabs as well: who wants them to stay names them in ``keep``.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else repr(char)[1:-1] for char in text)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, whole: Collection[str] = ()) -> None:
    """A table on standard output, as wide as the terminal.

    Args:
        columns: Their names.
        rows: Cells, as others wrote them; nothing in them is taken for markup.
        whole: Columns that people copy from: they stay on one line and are never cut, the others make room.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for number, name in enumerate(columns):
        width = max((len(printable(row[number])) for row in rows), default=0) if name in whole else None
        table.add_column(
            name, no_wrap=width is not None, overflow="fold" if width is None else "ignore", min_width=width
        )
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)
