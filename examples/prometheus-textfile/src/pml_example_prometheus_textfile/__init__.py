"""PML tracer ``prometheus_textfile``: how many tasks ended how, and how long they took, for node_exporter."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pml_hookspecs import setting

if TYPE_CHECKING:
    from pml_hookspecs import Ended, Services, Span

NAME = "pml_task_duration_seconds"
MOST, OTHER = 2000, "other"
"""So many sets of labels are told apart, for clients can make up names of tools; what comes then is ``other``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The table ``[plugins.prometheus_textfile]``."""

    path: str = setting("", "File to write; metrics/pml.prom in the folder PML_HOME, or in ~/.pml, if empty.")
    interval_s: float = setting(5.0, "How often the file is written [s].", ge=0.01)


class PrometheusTextfile:
    """Implements :class:`pml_hookspecs.Tracer`. Keeps sums, not spans: there is nothing to lose or to drop."""

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Without ``services`` the file is written by :meth:`flush` only."""
        from prometheus_client import CollectorRegistry, Summary

        self._settings, self._services = settings or Settings(), services
        home = Path(os.environ.get("PML_HOME") or "~/.pml")
        self._path = Path(self._settings.path or home / "metrics" / "pml.prom").expanduser()
        self._registry, self._labels = CollectorRegistry(), set[tuple[str, str, str]]()
        self._seconds = Summary(NAME, "How long tasks took.", ("task", "tool", "status"), registry=self._registry)

    async def __aenter__(self) -> Self:
        if self._services is not None:
            self._services.spawn(self._write_now_and_then, name="metrics")
        return self

    async def __aexit__(self, *_: object) -> None:
        """What was spawned is ended by the gateway, after a last :meth:`flush`."""

    def started(self, span: Span) -> None:
        """Nothing to do: a span is counted when it ends."""

    def ended(self, ended: Ended) -> None:
        labels = ended.span.name, str(ended.span.attributes.get("gen_ai.tool.name", "")), ended.status.value
        if labels not in self._labels and len(self._labels) >= MOST:
            labels = OTHER, OTHER, ended.status.value
        self._labels.add(labels)
        self._seconds.labels(*labels).observe((ended.end_ns - ended.span.start_ns) / 1e9)

    async def flush(self) -> None:
        try:
            if self._labels:  # a command that traces nothing leaves the file as the gateway wrote it
                await asyncio.to_thread(self._write)
        except OSError as exc:
            if self._services is not None:
                self._services.log.warning("metrics are not written", path=str(self._path), error=str(exc))

    def _write(self) -> None:
        from prometheus_client import write_to_textfile

        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_to_textfile(str(self._path), self._registry)

    async def _write_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._settings.interval_s)
            await self.flush()
