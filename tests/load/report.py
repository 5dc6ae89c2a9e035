"""What was measured, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table


def show(found: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Print a table: of a rate, or of the eras of idle clients."""
    console = Console()
    console.print(_rate(found) if isinstance(found, Mapping) else _idle(found))
    for one in [found] if isinstance(found, Mapping) else found:
        if one["complaints"]:
            console.print(f"the gateways said:\n{one['complaints']}", markup=False)


def _rate(found: Mapping[str, Any]) -> Table:
    plan = found["plan"]
    arriving = f"{plan['rate']:g} calls/s at each of {plan['gateways']}"
    title = f"{plan['clients']} clients, {arriving}, {plan['duration_s']:g} s, {plan['store']}"
    table = Table(title=title)
    for column in ("", "p50", "p90", "p99", "p99.9"):
        table.add_column(column, justify="right" if column else "left")
    rows = (
        ("through the gateway [ms]", "gateway_ms"),
        ("straight to a server [ms]", "direct_ms"),
        ("added [ms]", "added_ms"),
        ("sent late by this tool [ms]", "sent_late_ms"),
    )
    for words, key in rows:
        table.add_row(escape(words), *(f"{number:.2f}" for number in found[key].values()))
    table.add_section()
    wrong = sum(found["errors"].values()) + found["unanswered"]
    memory = found["memory_mb"]
    numbers = [
        ("calls, failed", f"{found['calls']}, {wrong}"),
        ("streams lost, rows missing in history", f"{found['streams_lost']}, {found['rows_missing']}"),
        *((f"processor of the {part} for a call [µs]", f"{us:.0f}") for part, us in found["cpu_us_per_call"].items()),
        *((f"processor of the {part} [cores]", f"{part_cores:.3f}") for part, part_cores in found["cores"].items()),
        ("memory of the gateways, first and last [MB]", f"{memory['first']:.1f}, {memory['last']:.1f}"),
        ("its slope once warm [kB/s]", f"{found['memory_slope_kb_per_s']:.2f}"),
    ]
    for words, number in (*numbers, *found["errors"].items()):
        table.add_row(escape(words), escape(str(number)))
    return table


def _idle(found: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title=f"{found[0]['clients']} idle clients")
    for column in ("", *(one["era"] for one in found)):
        table.add_column(column, justify="right" if column else "left")
    rows = (
        ("memory for a client [kB]", lambda one: f"{one['kb_per_client']:.1f}"),
        ("the same when all came a second time [kB]", lambda one: f"{one['kb_per_client_again']:.1f}"),
        *(
            (f"memory: {when.replace('_', ' ')} [MB]", lambda one, when=when: f"{one['memory_mb'][when]:.1f}")
            for when in ("before", "with_all", "left", "with_all_again")
        ),
        ("processor for a client to connect [ms]", lambda one: f"{one['cpu_ms_per_client_connecting']:.2f}"),
        ("processor while all are idle [cores]", lambda one: f"{one['cores_idle']:.3f}"),
        ("open files", lambda one: str(one["open_files"])),
        ("streams lost", lambda one: str(one["streams_lost"])),
    )
    for words, said in rows:
        table.add_row(escape(words), *(said(one) for one in found))
    return table
