"""What the commands print."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Sequence
from typing import Any


def say(text: str) -> None:
    """To standard output."""
    sys.stdout.write(f"{text}\n")


def tell(text: str) -> None:
    """To standard error: for people, where programs read the output."""
    sys.stderr.write(f"{text}\n")


def say_json(value: Any) -> None:
    """For programs."""
    say(json.dumps(value, indent=2))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """For people; the first column, which they copy, is never cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns)
    first = table.columns[0]
    first.no_wrap, first.overflow, first.min_width = True, "ignore", max(len(row[0]) for row in rows)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)


def printable(text: str) -> str:
    """What others wrote is not for the terminal to obey."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def operator() -> str:
    """Who gives the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user that the system does not know, as in some containers
        return ""
