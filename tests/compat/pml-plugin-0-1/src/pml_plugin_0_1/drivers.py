"""The exposure mode and the tracer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pml_hookspecs import Selection

from . import FIRED
from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Catalog, Ended, Services, Session, Span


class Mode:
    """The tool that the settings name, then the others as the catalog has them."""

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Needs no services."""
        self._settings = settings or Settings()

    async def select(self, catalog: Catalog, session: Session) -> Selection:
        """At most as many as the settings allow."""
        shown = [entry for entry in catalog if entry.meta or not entry.own]
        found = sorted(shown, key=lambda entry: entry.name != self._settings.first)[: self._settings.most]
        why = {entry.id: f"{entry.server} has it, {entry.tokens} tokens" for entry in found}
        return Selection(tuple(entry.id for entry in found), shared=not session.intent, why=why)


class Tracer:
    """Remembers that it was told."""

    settings_type = Settings

    def __init__(self, settings: Settings | None = None, services: Services | None = None) -> None:
        """Needs nothing."""

    def started(self, span: Span) -> None:
        FIRED.add(f"started {span.kind}")

    def ended(self, ended: Ended) -> None:
        FIRED.add(f"ended {ended.span.kind} {ended.status.value}")

    async def flush(self) -> None:
        FIRED.add("flush")
