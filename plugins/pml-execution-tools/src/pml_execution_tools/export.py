"""``pml executions export``: the history for other programs, as lines of JSON or as CSV."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import IO, TYPE_CHECKING, Any

from pml_hookspecs import ExecutionQuery, ExecutionRecord, Failure, InvalidArguments, defaults, encode
from pml_kit.pages import every_execution

from .records import EVERYTHING, PUBLIC, zulu

if TYPE_CHECKING:
    from pml_hookspecs import Executions, Services

PAGE = 100
COLUMNS = tuple(name for name in defaults(ExecutionRecord) if name != "transcript")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a text begins with that spreadsheets would compute."""


def add(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument("--format", choices=("jsonl", "csv"), default="jsonl", help="lines of JSON, or CSV")
    parser.add_argument("--output", metavar="FILE", help="where to write; standard output unless given")
    parser.add_argument("--inside", action="store_true", help="also what ran inside others")
    parser.add_argument("--transcripts", action="store_true", help="also what agents said and did (not in CSV)")


async def run(arguments: argparse.Namespace, services: Services) -> int:
    """Answer the command.

    Raises:
        InvalidArguments: A time is none, or the file cannot be written.
    """
    if arguments.transcripts and arguments.format == "csv":
        raise InvalidArguments("--transcripts needs --format jsonl: CSV has no place for them.")
    found = _records(services.store.executions, _asked(arguments), transcripts=arguments.transcripts)
    count = 0
    try:
        with _opened(arguments.output) as file:
            write = _lines(file) if arguments.format == "jsonl" else _rows(file)
            async for record in found:
                write(record)
                count += 1
    except OSError as exc:
        raise InvalidArguments(
            f"{arguments.output or 'standard output'} cannot be written: {exc.strerror or exc}"
        ) from None
    if arguments.output:
        sys.stderr.write(f"{count:,} executions are in {arguments.output}.\n")
    return 0


def _asked(arguments: argparse.Namespace) -> ExecutionQuery:
    from .units import times_of

    times = {name: datetime.fromisoformat(text) if text else None for name, text in times_of(arguments).items()}
    return ExecutionQuery(
        scope=EVERYTHING,
        since=times["since"],
        until=times["until"],
        agent=arguments.agent,
        statuses=None if arguments.status is None else PUBLIC[arguments.status],
        trigger=arguments.trigger,
        principal=arguments.person,
        target=arguments.tool,
        top_level=not (arguments.inside or arguments.tool),
        limit=PAGE,
    )


async def _records(
    executions: Executions, query: ExecutionQuery, *, transcripts: bool
) -> AsyncIterator[ExecutionRecord]:  # fmt: skip
    """Newest first."""
    async for record in every_execution(executions, query):
        whole = await executions.get(record.id, query.scope, transcript=True) if transcripts else None
        yield whole or record


@contextmanager
def _opened(path: str | None) -> Iterator[IO[str]]:
    """A file that only its owner may read, or standard output."""
    if path is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        yield file


def _lines(file: IO[str]) -> Any:
    def write(record: ExecutionRecord) -> None:
        values = {name: _plain(getattr(record, name)) for name in COLUMNS}
        if record.transcript is not None:
            values["transcript"] = [_plain(line) for line in record.transcript]
        file.write(f"{_json(values)}\n")

    return write


def _rows(file: IO[str]) -> Any:
    rows = csv.writer(file)
    rows.writerow(COLUMNS)
    return lambda record: rows.writerow([_cell(getattr(record, name)) for name in COLUMNS])


def _cell(value: Any) -> Any:
    """Of what has parts its JSON; a text that a spreadsheet would compute begins with ``'``."""
    plain = _plain(value)
    if isinstance(plain, (dict, list)):
        return _json(plain)
    if not isinstance(plain, str):
        return plain
    text = _written(plain)
    return f"'{text}" if text.startswith(FORMULA) else text


def _json(value: Any) -> str:
    return _written(json.dumps(value, ensure_ascii=False))


def _written(text: str) -> str:
    """Half a surrogate pair as an escape: no encoding has a form for it."""
    return text.encode("utf-8", "backslashreplace").decode()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return zulu(value)
    if isinstance(value, Failure):
        return {"code": value.code, "message": value.message, "details": _plain(value.details)}
    if isinstance(value, (Mapping, list, tuple)):
        return json.loads(encode(value))
    return value
