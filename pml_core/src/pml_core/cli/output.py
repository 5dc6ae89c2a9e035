"""Tables for people, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


def print_columns(rows: Iterable[Sequence[str]], header: Sequence[str] = ()) -> None:
    """Rows in columns as wide as their widest cell; the last one runs on."""
    table = [list(header), *map(list, rows)] if header else [list(row) for row in rows]
    if not table:
        return
    widths = [max(len(row[n]) for row in table) for n in range(len(table[0]) - 1)]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([*cells, row[-1]]).rstrip())
