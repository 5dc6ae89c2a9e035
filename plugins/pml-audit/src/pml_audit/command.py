"""``pml audit``: look at the record, check it, take it elsewhere."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments
from pml_kit.command_line.moments import moment
from pml_kit.terminal import print_json, print_table, printable

from .settings import Settings, folder_of

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .rows import Tip
    from .verify import ChainBreak, Report

MOST = 100_000
"""Rows in one list."""
SHOWN = frozenset({"n", "at", "kind", "principal", "target", "previous", "hash", "gateway"})
"""Members that have a column of their own, or none."""
TIMES = "2026-01-31, 2026-01-31T12:00Z, or 30m, 2h, 7d, 4w"
WIDEST = 120
"""Characters of the last column."""


def add(subcommands: Any) -> None:
    """Add the command and its verbs."""
    parser = subcommands.add_parser("audit", help="see and check the record of denials, queries and changes")
    verbs = parser.add_subparsers(dest="verb", required=True)
    shown = verbs.add_parser("list", help="the last rows, the newest first")
    shown.add_argument("--limit", type=int, default=50, help=f"most rows [1 to {MOST}]")
    shown.set_defaults(run_with=_list)
    check = verbs.add_parser("verify", help="whether all rows are there as they were written; status 1 if not")
    check.add_argument(
        "--against", action="append", default=[], type=Path, metavar="FILE",
        help="compare with what was exported: lines of syslog or of pml audit export, OTLP as JSON; may be repeated",
    )  # fmt: skip
    check.set_defaults(run_with=_verify)
    export = verbs.add_parser("export", help="all rows, the oldest first, one JSON object in a line")
    export.add_argument("--output", default="-", help="file to write, which must not be there yet; - for stdout")
    export.set_defaults(run_with=_export)
    for verb in (shown, export):
        verb.add_argument("--kind", help="only rows of this kind, such as denied, or audit.* for all that begin so")
        verb.add_argument("--principal", help="only rows about this principal")
        verb.add_argument("--since", help=f"only rows from this time on: {TIMES}")
    for verb in (shown, check):
        verb.add_argument("--json", action="store_true", help="for programs")
    export.add_argument("--json", action="store_true", help="one JSON object, with how far the rows go")


async def _list(arguments: argparse.Namespace, services: Services) -> int:
    if not 1 <= arguments.limit <= MOST:
        raise InvalidArguments(f"--limit must be 1 to {MOST}")
    rows = await asyncio.to_thread(lambda: deque(_rows(services, arguments), maxlen=arguments.limit))
    newest_first = list(reversed(rows))
    if arguments.json:
        print_json(newest_first)
    elif not newest_first:
        _say("There are no such rows.")
    else:
        _show_table(newest_first)
    return 0


def _show_table(rows: Sequence[dict[str, Any]]) -> None:
    shown = []
    for row in rows:
        more = ", ".join(f"{name} {_short(value)}" for name, value in row.items() if name not in SHOWN)
        more = more if len(more) <= WIDEST else f"{more[: WIDEST - 1]}…"
        cells = (str(row["n"]), row.get("at", "")[:19], row.get("kind", ""), row.get("principal", "-"))
        shown.append([str(cell) for cell in (*cells, row.get("target", "-"), more)])
    print_table(("row", "at", "kind", "principal", "what", "more"), shown)


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


async def _verify(arguments: argparse.Namespace, services: Services) -> int:
    from .heads import verified

    folder = _folder(services)
    kept, strange = await asyncio.to_thread(_exported, arguments.against, folder)
    report = await verified(services, folder, kept)
    report.broken = report.broken or strange
    if arguments.against and report.broken is None:
        report.notes.append(f"{len({tip.n for _, tip in kept})} of {report.rows} rows are as they were exported")
    if arguments.json:
        print_json({"folder": str(folder), **report.plain()})
    else:
        _tell(report, folder)
    return 0 if report.broken is None else 1


def _exported(paths: Sequence[Path], folder: Path) -> tuple[list[tuple[str, Tip]], ChainBreak | None]:
    """Rows as files elsewhere know them, each with the file; what is wrong with one that knows another audit.

    Raises:
        InvalidArguments: A file cannot be read, or has no row.
    """
    from .export.comparison import exported
    from .heads import trail_id
    from .verify import ChainBreak

    own, kept, strange = trail_id(folder), [], None
    for path in paths:
        try:
            rows = list(exported(path))
        except OSError as exc:
            raise InvalidArguments(f"{path}: cannot be read: {exc.strerror}") from exc
        if not rows:
            raise InvalidArguments(f"{path}: has no row of an audit, as syslog, pml audit export or OTLP have it")
        mine = [(str(path), row.tip) for row in rows if row.trail in ("", own)]
        kept += mine
        if not mine:
            problem = f"knows the audit {rows[-1].trail}, and not this one ({own}): it was begun or written anew"
            strange = ChainBreak(str(path), 1, problem)
    return kept, strange


def _tell(report: Report, folder: Path) -> None:
    for line in report.notes:
        _say(f"Note: {printable(line)}")
    if report.broken is not None:
        _say(_broken(report.broken))
        _say(f"{report.rows} rows before it are as they were written.")
    elif report.rows:
        _say(f"All {report.rows} rows in {folder} are as they were written; the last is {report.tip.hash}.")
    else:
        _say(f"There are no rows yet in {folder}.")


def _broken(broken: ChainBreak) -> str:
    return f"Broken: {printable(f'{broken.file}, line {broken.line}: {broken.problem}')}"


async def _export(arguments: argparse.Namespace, services: Services) -> int:
    from .heads import verified

    report = await verified(services, _folder(services))
    status = 0 if report.broken is None else 1
    if report.broken is not None:
        sys.stderr.write(f"{_broken(report.broken)}\n")
    if arguments.output == "-":
        await asyncio.to_thread(_write, services, arguments, report, sys.stdout)
        return status
    try:
        with Path(arguments.output).open("x", encoding="utf-8") as file:  # noqa: ASYNC230 - a command does one thing
            count = await asyncio.to_thread(_write, services, arguments, report, file)
    except FileExistsError:
        raise InvalidArguments(f"--output {arguments.output}: the file is there already; name another") from None
    except OSError as exc:
        raise InvalidArguments(f"--output {arguments.output}: {exc.strerror}") from exc
    sys.stderr.write(f"{count} rows in {arguments.output}\n")
    return status


def _write(services: Services, arguments: argparse.Namespace, report: Report, file: Any) -> int:
    from .rows import canonical

    rows = _rows(services, arguments)
    if arguments.json:
        whole = list(rows)
        about = {"folder": str(_folder(services)), **report.plain()}
        file.write(json.dumps({"audit": about, "rows": whole}, indent=2) + "\n")
        return len(whole)
    count = 0
    for row in rows:
        file.write(canonical(row).decode() + "\n")
        count += 1
    return count


def _rows(services: Services, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Those asked for, the oldest first. What is no row is left out: verify tells of it."""
    from .files import Files
    from .verify import Snapshot

    since = ""
    if arguments.since:
        since = moment(arguments.since, "--since", datetime.now(UTC), ahead=True).isoformat()
    with Snapshot(Files(_folder(services))) as snapshot:
        for _, _, line in snapshot.lines():
            try:
                row: Any = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and "n" in row and _wanted(row, arguments, since):
                yield row


def _wanted(row: dict[str, Any], arguments: argparse.Namespace, since: str) -> bool:
    kind = str(row.get("kind", ""))
    if arguments.kind and kind != arguments.kind:
        prefix = arguments.kind.removesuffix("*")
        if prefix == arguments.kind or not kind.startswith(prefix):
            return False
    if arguments.principal and row.get("principal") != arguments.principal:
        return False
    return str(row.get("at", "")) >= since


def _folder(services: Services) -> Path:
    return folder_of(services.settings or Settings())


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
