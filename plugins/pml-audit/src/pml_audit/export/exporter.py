"""Hands rows on for as long as the gateway runs, at least once, and never waits for anybody who calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from pml_audit.files import Files
from pml_audit.heads import has_row, trail_id
from pml_audit.rows import START, canonical
from pml_kit.offers import LOG_EXPORT, LogExport, LogRecord

from .syslog import ERROR, WARNING, Syslog, severity
from .tail import Cursor, Tail

if TYPE_CHECKING:
    from pathlib import Path

    from pml_audit.settings import Settings
    from pml_hookspecs import Services

Send: TypeAlias = Callable[[Sequence[Mapping[str, Any]], str], None]
BATCH = 200
"""Rows that are handed on together."""
LOOK_S, LONGEST_WAIT_S = 0.5, 60.0
"""How often it is looked for rows, and for a target that is down at least [s]."""
EXIT_S = 3.0
"""Longest that the end of the gateway waits for the last rows to arrive [s]."""
NO_COLLECTOR = "[plugins.audit] otlp is set, and no plugin offers log_export: install pml-tracer-otel"


def targets_of(services: Services, settings: Settings) -> dict[str, Send]:
    """To whom rows go, by name.

    Raises:
        ValueError: An address does not fit, or nobody knows the way to a collector.
    """
    found: dict[str, Send] = {}
    if settings.syslog:
        found[f"syslog {settings.syslog}"] = Syslog(settings.syslog, settings.syslog_ca)
    if settings.otlp:
        export = services.find(LOG_EXPORT)
        if export is None:
            raise ValueError(NO_COLLECTOR)
        found["otlp"] = _otlp(export)
    return found


def _otlp(export: LogExport) -> Send:
    def send(rows: Sequence[Mapping[str, Any]], trail: str) -> None:
        if problem := export([_record(row, trail) for row in rows]):
            raise OSError(problem)

    return send


def _record(row: Mapping[str, Any], trail: str) -> LogRecord:
    kind, told = str(row.get("kind", "")), {"trail": trail, **{name: row[name] for name in ("n", "hash", "previous")}}
    loud = {ERROR: "error", WARNING: "warn"}.get(severity(kind), "info")
    return LogRecord(
        at_ns=int(datetime.fromisoformat(row["at"]).timestamp() * 1_000_000) * 1000,
        event=f"pml.audit.{kind}",
        body=canonical({**row, "trail": trail}).decode(),
        severity=loud,  # type: ignore[arg-type]
        attributes={f"pml.audit.{name}": value for name, value in told.items()},
    )


class Exporter:
    """A thread for each target: one that does not answer holds up neither the gateway nor the other."""

    def __init__(self, services: Services, settings: Settings, folder: Path) -> None:
        """Nothing is sent yet; what does not fit in the settings is in the log."""
        self._log, self._folder = services.log, folder
        self._cursor, self._over = Cursor(folder), threading.Event()
        targets: dict[str, Send] = {}
        try:
            targets = targets_of(services, settings)
        except ValueError as exc:
            self._log.warning("the audit is not exported", problem=str(exc))
        self._threads = [
            threading.Thread(target=self._serve, args=target, name=f"pml-audit-{number}", daemon=True)
            for number, target in enumerate(targets.items())
        ]

    def start(self) -> None:
        """Hand on what there is and what comes."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Hand on what there is, and end; what takes too long is for the next gateway."""
        self._over.set()
        until_s = time.monotonic() + EXIT_S
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        self._cursor.close()

    def _serve(self, target: str, send: Send) -> None:
        wait_s, failing = 0.0, False
        tail: Tail | None = None
        while True:
            last = self._over.wait(wait_s)
            try:
                if self._cursor.take():
                    tail = tail or self._tail(target)
                    sent = self._hand_on(target, send, tail)
                    wait_s = 0.0 if sent == BATCH else LOOK_S
                    if failing:
                        self._log.info("the audit is exported again", target=target)
                    failing, last = False, last and sent < BATCH
                else:
                    wait_s = LOOK_S  # another gateway has it
            except Exception as exc:
                if not failing:
                    self._log.warning("the audit cannot be exported; its rows wait", target=target, problem=str(exc))
                wait_s, failing = min(max(LOOK_S, 2 * wait_s), LONGEST_WAIT_S), True
                if tail is not None:
                    tail.close()
                tail = None  # what is known to have arrived is in the cursor
            if last:
                break
        if tail is not None:
            tail.close()

    def _tail(self, target: str) -> Tail:
        known = self._cursor.of(target)
        # A trail that was written anew is exported anew: what stood in it before stays where it has arrived.
        return Tail(Files(self._folder), known if known == START or has_row(self._folder, known) else START)

    def _hand_on(self, target: str, send: Send, tail: Tail) -> int:
        rows = tail.next(BATCH)
        if rows:
            send(rows, trail_id(self._folder))
            self._cursor.keep(target, tail.tip)
        return len(rows)
