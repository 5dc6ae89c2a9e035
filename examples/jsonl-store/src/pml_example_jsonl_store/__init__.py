"""PML store ``jsonl``: everything in memory, and every change as one line of a file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pml_hookspecs import Json, Services, setting
from pml_stores.changes import Change
from pml_stores.line_file import LineFile
from pml_stores.lines import from_line, to_line
from pml_stores.memory import MemoryStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The table ``[plugins.jsonl]``."""

    path: str = setting("", "File to keep the data in; pml.jsonl in the folder PML_HOME, or in ~/.pml, if empty.")
    flush_interval_ms: int = setting(50, "Longest that what is recorded stays in memory [ms].", ge=1, le=90)


class JsonlStore(MemoryStore):
    """Implements :class:`pml_hookspecs.Store`, for one gateway at a time."""

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        super().__init__()
        settings, home = settings or Settings(), Path(os.environ.get("PML_HOME") or "~/.pml")
        self._file = LineFile(Path(settings.path or home / "pml.jsonl").expanduser(), head=b'{"pml_jsonl":1}')
        self._interval_s, self._waiting = settings.flush_interval_ms / 1000, list[bytes]()
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        super().change(*self._file.open(from_line))
        self._flush()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        try:
            self._flush()
        finally:
            self._file.close()

    def change(self, *changes: Change, soon: bool = False) -> None:
        """Applies what will be read back, so nothing gets in that the file cannot keep."""
        lines = [to_line(*change) for change in changes]
        super().change(*map(from_line, lines))
        self._waiting += lines
        if not soon:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._flush_later)

    def _flush(self) -> None:
        self._file.append(self._waiting)
        self._waiting = []
        if self._file.count > 2 * self.count + 100:
            with suppress(OSError):
                self._file.replace(to_line(*change) for change in self.changes())

    def _flush_later(self) -> None:
        self._timer = None
        with suppress(OSError):
            self._flush()
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(1, self._flush_later)

    async def health(self) -> Mapping[str, Json]:
        """Where the data is, how much there is, and what was lost."""
        return {**await super().health(), "path": str(self._file.path), "size_bytes": self._file.size_bytes}
