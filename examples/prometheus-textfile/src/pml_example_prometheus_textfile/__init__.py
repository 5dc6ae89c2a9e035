"""PML tracer ``prometheus_textfile``: how many tasks ended how, and how long they took, for node_exporter."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Self

from pml_hookspecs import setting

from .sums import Sums

if TYPE_CHECKING:
    from pml_hookspecs import Ended, Services, Span

__all__ = ["PrometheusTextfile", "Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The table ``[plugins.prometheus_textfile]``."""

    path: str = setting("", "File to write; metrics/pml.prom in the folder PML_HOME, or in ~/.pml, if empty.")
    interval_s: float = setting(5.0, "How often the file is written while tasks end [s].", ge=0.01)


class PrometheusTextfile:
    """Implements :class:`pml_hookspecs.Tracer`. Keeps sums, not spans: there is nothing to lose or to drop."""

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Without ``services`` the file is written by :meth:`flush` only."""
        self._settings, self._services = settings or Settings(), services
        home = Path(os.environ.get("PML_HOME") or "~/.pml")
        self._path = Path(self._settings.path or home / "metrics" / "pml.prom").expanduser()
        self._sums, self._written, self._writing = Sums(), 0, Lock()

    async def __aenter__(self) -> Self:
        if self._services is not None:
            self._services.spawn(self._write_now_and_then, name="metrics")
        return self

    def started(self, span: Span) -> None:
        """Nothing to do: a span is counted when it ends."""

    def ended(self, ended: Ended) -> None:
        tool = str(ended.span.attributes.get("gen_ai.tool.name", ""))
        self._sums.add(ended.span.name, tool, ended.status.value, ended.end_ns - ended.span.start_ns)

    async def flush(self) -> None:
        """Write the file, in one step for its readers; nothing when no span has ended since the last time."""
        if (count := self._sums.count) == self._written:
            return
        try:
            await asyncio.to_thread(self._write, self._sums.text())
            self._written = count
        except OSError as exc:
            if self._services is not None:
                self._services.log.warning("metrics are not written", path=str(self._path), error=str(exc))

    def _write(self, text: str) -> None:
        # One that was given up may still be writing in its thread.
        with self._writing:
            new = self._path.with_suffix(".new")
            new.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(text, encoding="utf-8")
            new.replace(self._path)

    async def _write_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._settings.interval_s)
            await self.flush()
