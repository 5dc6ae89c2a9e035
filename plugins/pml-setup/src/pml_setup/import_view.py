"""What ``pml import`` shows to people. Never shows a secret."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pml_clients import client_configs, secret_values
from pml_kit.terminal import printable

from .import_report import DEFAULT_TARGET

if TYPE_CHECKING:
    from rich.console import Console

    from .import_report import Item, Report


def show(report: Report) -> None:
    """Print the report to standard output."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    _show_table(console, report)
    lines = _found_lines(report) if report.target is None else _imported_lines(report)
    for line in lines:
        console.print(printable(line, keep="\n"), soft_wrap=True)


def _show_table(console: Console, report: Report) -> None:
    from rich.table import Table
    from rich.text import Text

    if not report.items:
        return
    discovery = report.target is None
    table = Table("Client" if discovery else "Result", "Server", "Runs", "Secrets", "From", box=None, pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    for item in report.items:
        cells = (
            item.client if discovery else item.action,
            item.server.name,
            _address(item),
            _secrets(item),
            _short(item.source),
        )
        table.add_row(*(Text(printable(cell, keep="\n")) for cell in cells))
    console.print(table)


def _address(item: Item) -> str:
    table = secret_values.masked(item.table)
    command = (table.get("command", ""), *table.get("args", ()))
    address = str(table["url"]) if "url" in table else shlex.join(command)
    return address if item.server.enabled else f"{address} (disabled)"


def _secrets(item: Item) -> str:
    return str(len(secret_values.found_in(item.table)) or len(item.variables) or "-")


def _short(source: str) -> str:
    path, home = Path(source), Path.home()
    if path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return str(Path("~") / path.relative_to(home)) if path.is_relative_to(home) else source


def _found_lines(report: Report) -> Iterator[str]:
    yield from _unread(report)
    yield from _reasons(report)
    clients = dict.fromkeys(item.client for item in report.items)
    if not clients:
        yield "No MCP client has servers configured in the usual places. Import a file of yours: pml import FILE"
        return
    yield "\nImport the servers of one client, of all, or of one file:"
    yield from (f"  pml import --from {client}" for client in clients)
    yield "  pml import --all"
    yield "  pml import FILE"


def _unread(report: Report) -> Iterator[str]:
    for where, reason in report.unread:
        known = where in client_configs.CLIENTS or reason.startswith(where)
        yield f"\nLeft out, because it cannot be used: {reason if known else f'{where}: {reason}'}"


def _imported_lines(report: Report) -> Iterator[str]:
    yield from _unread(report)
    yield from _item_notes(report)
    yield from _variable_lines(report)
    yield from (f"\nWarning: {note}." for note in report.notes)
    yield f"\n{_summary(report)}"
    if not report.dry_run:
        option = "" if str(report.target) == DEFAULT_TARGET else f" --config {shlex.quote(str(report.target))}"
        clients = dict.fromkeys(item.client for item in report.items if item.client)
        then = [f"pml connect {client}{option}" for client in clients] or [f"pml serve{option}"]
        yield f"Next: pml config check{option}, then {', '.join(then)}"


def _item_notes(report: Report) -> Iterator[str]:
    lines = list(_reasons(report))
    lines += [f"  {i.server.name}: {note}" for i in report.items if i.action != "skipped" for note in i.server.notes]
    if lines:
        yield "\nNotes:"
        yield from lines


def _reasons(report: Report) -> Iterator[str]:
    yield from (f"  {item.server.name}: {item.reason}" for item in report.items if item.reason)


def _variable_lines(report: Report) -> Iterator[str]:
    """Names only: the values stay where they were."""
    uses: dict[str, list[str]] = {}
    for item in report.items:
        for variable in item.variables if item.action != "skipped" else ():
            uses.setdefault(variable.name, []).append(f"{variable.secret.place} of {item.server.name}")
    if uses:
        yield "\nSet these variables in the environment of pml serve; their values are in the client's file:"
        yield from (f"export {name}=  # {', '.join(places)}" for name, places in uses.items())


def _summary(report: Report) -> str:
    counts = {
        action: sum(item.action == action for item in report.items) for action in ("added", "replaced", "unchanged")
    }
    said = ", ".join(f"{count} {action}" for action, count in counts.items() if count) or "nothing to add"
    if report.dry_run:
        return f"Dry run, nothing is written. {report.target}: {said}."
    return f"{report.target}: {said}." if report.written else f"{report.target} stays as it is: {said}."
