"""What was exported, read from whatever a daemon or a collector made of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pml_audit.rows import Tip

from .syslog import ENTERPRISE

_SYSLOG = re.compile(
    rf'(?:\d+ )?<\d{{1,3}}>1(?: \S+){{5}} \[{ENTERPRISE} trail="([^"]*)" n="(\d+)" hash="([0-9a-f]{{64}})"'
)
_ATTRIBUTE = "pml.audit."


class ExportedRow(NamedTuple):
    """A row as another machine knows it."""

    trail: str
    """Its audit; empty where that is not said."""
    tip: Tip


def exported(path: Path) -> Iterator[ExportedRow]:
    """Rows in a file of lines.

    Each as RFC 5424 has it, as any text with the JSON of the message at its end, as ``pml audit export`` writes it, or
    as JSON of OTLP.

    Raises:
        OSError: It cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if found := _SYSLOG.match(line):
                yield ExportedRow(found[1], Tip(int(found[2]), found[3]))
            elif "{" in line:
                yield from _of_json(line[line.index("{") :])


def _of_json(text: str) -> Iterator[ExportedRow]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(value, dict):
        return
    if "resourceLogs" in value:
        for record in _records(value):
            yield from _row({name.removeprefix(_ATTRIBUTE): one for name, one in record})
    else:
        yield from _row(value)


def _row(value: dict[str, Any]) -> Iterator[ExportedRow]:
    number, hash = value.get("n"), value.get("hash")
    if str(number).isdigit() and isinstance(hash, str):
        yield ExportedRow(str(value.get("trail", "")), Tip(int(str(number)), hash))


def _records(value: dict[str, Any]) -> Iterator[list[tuple[str, Any]]]:
    """Attributes of each record of OTLP's JSON; what is otherwise built has none."""
    try:
        for resource in value["resourceLogs"]:
            for scope in resource["scopeLogs"]:
                for record in scope["logRecords"]:
                    yield [(one["key"], next(iter(one["value"].values()))) for one in record.get("attributes", ())]
    except (KeyError, TypeError, AttributeError, StopIteration):
        return
