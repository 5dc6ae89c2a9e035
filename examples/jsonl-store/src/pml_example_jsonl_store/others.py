"""The tools that servers had, and secrets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CatalogEntry, ServerStatus

if TYPE_CHECKING:
    from .journal import Journal


class JsonlCatalog:
    """Implements :class:`pml_hookspecs.CatalogCache`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tools: dict[str, tuple[str, list[CatalogEntry]]] = {}
        self._statuses: dict[str, ServerStatus] = {}
        journal.live.part("tools", lambda server, value: self._tools.update({server: self._read(*value)}))
        journal.live.part("server", lambda name, value: self._statuses.update({name: ServerStatus(**value)}))

    @staticmethod
    def _read(fingerprint: str, tools: list[dict[str, Any]]) -> tuple[str, list[CatalogEntry]]:
        return fingerprint, [CatalogEntry(**tool) for tool in tools]

    async def replace(self, server: str, fingerprint: str, entries: Sequence[CatalogEntry]) -> None:
        """Make ``entries`` all that ``server`` has."""
        members = CatalogEntry.__slots__
        tools = [{m: getattr(e, m) for m in members} for e in sorted(entries, key=lambda e: e.name)]
        self._journal.write("tools", server, [fingerprint, tools])

    async def entries(self, server: str, fingerprint: str) -> Sequence[CatalogEntry]:
        """By tool name; empty under another fingerprint."""
        known, entries = self._tools.get(server, ("", []))
        return entries if known == fingerprint else []

    async def report(self, status: ServerStatus) -> None:
        """Remember how a server is doing."""
        self._journal.write("server", status.name, asdict(status))

    async def statuses(self) -> Sequence[ServerStatus]:
        """By name."""
        return [self._statuses[name] for name in sorted(self._statuses)]


class JsonlSecrets:
    """Implements :class:`pml_hookspecs.Secrets`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._values: dict[str, str | None] = {}
        journal.live.part("secret", self._values.__setitem__)

    async def get(self, owner: str, name: str) -> str | None:
        """None when there is none."""
        return self._values.get(repr((owner, name)))

    async def put(self, owner: str, name: str, value: str | None) -> None:
        """Keep it in the file, which only its owner can read."""
        self._journal.write("secret", repr((owner, name)), value)
