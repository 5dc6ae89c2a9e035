"""PML store ``jsonl``: everything in memory, and every change as one line of a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pml_hookspecs import setting

if TYPE_CHECKING:
    from pml_hookspecs import Json, Services

__all__ = ["JsonlStore", "Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The table ``[plugins.jsonl]``."""

    path: str = setting("", "File to keep the data in; pml.jsonl in the folder PML_HOME, or in ~/.pml, if empty.")
    flush_interval_ms: int = setting(
        50, "Longest that what is recorded while a call runs stays in memory [ms].", ge=1, le=90
    )


class JsonlStore:
    """Implements :class:`pml_hookspecs.Store`, for one gateway at a time."""

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """No I/O."""
        from .documents import JsonlDocuments
        from .executions import JsonlExecutions
        from .journal import Journal
        from .others import JsonlCatalog, JsonlSecrets
        from .traces import JsonlTraces

        settings = settings or Settings()
        home = Path(os.environ.get("PML_HOME") or "~/.pml")
        self.path = Path(settings.path or home / "pml.jsonl").expanduser()
        self.journal = Journal(self.path, settings.flush_interval_ms / 1000)
        self.traces = JsonlTraces(self.journal)
        self.executions = JsonlExecutions(self.journal, self.traces)
        self.traces.executions = self.executions
        self.catalog = JsonlCatalog(self.journal)
        self.secrets = JsonlSecrets(self.journal)
        self.documents = JsonlDocuments(self.journal)

    async def __aenter__(self) -> Self:
        self.journal.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.journal.close()

    async def health(self) -> Mapping[str, Json]:
        """Where the data is, how much there is, and what was lost."""
        told: dict[str, Any] = {"path": str(self.path), "format": 1, "size_bytes": self.journal.file.size_bytes}
        return {**told, "executions": len(self.executions.known), "drops": self.journal.drops}
