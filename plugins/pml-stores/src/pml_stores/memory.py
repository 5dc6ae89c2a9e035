"""A whole store in memory, with one way in for what changes: what a store is made of that keeps its data in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from .changes import Change, Changes, Key, MemoryTable
from .memory_documents import MemoryDocuments
from .memory_executions import MemoryExecutions

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Json, ServerStatus


class MemoryStore:
    """Implements :class:`pml_hookspecs.Store` in memory.

    Everything that changes comes through :meth:`change`. A store that keeps its data in a file overrides it to write
    down what it is told before or after it hands it on, and hands on what the file has when it is entered;
    :mod:`pml_stores.lines` turns changes into lines and back.
    """

    def __init__(
        self,
        *,
        most_executions: int | None = None,
        most_documents: int | None = None,
        most_document_bytes: int | None = None,
    ) -> None:
        """Starts empty. Over these bounds, what was recorded first (as with spans) or changed longest ago is forgotten.

        ``most_document_bytes`` is of the values of documents [bytes]; None is for no bound.
        """
        self.executions = MemoryExecutions(self, most_executions)
        self.traces = self.executions.traces
        self.documents = MemoryDocuments(self, most_documents, most_document_bytes)
        self.catalog = MemoryCatalog(self)
        self.secrets = MemorySecrets(self)
        self._parts: Mapping[str, MemoryTable[Any]] = {
            "server": self.catalog.reports,
            "tools": self.catalog.tools,
            "secret": self.secrets.kept,
            "document": self.documents,
            "execution": self.executions,
            "span": self.traces,
        }
        self.drops = 0
        """What nobody waits for and could not be kept, and documents forgotten for lack of room."""

    def change(self, *changes: Change, soon: bool = False) -> None:
        """Have all of this be so, in this order; nobody changes a value any more that was handed in.

        ``soon``: nobody waits for it to be durable.
        """
        for kind, key, value in changes:
            self._parts[kind].apply(key, value)

    def change_soon(self, kind: str, key: Key, value: Any) -> None:
        """As :meth:`change`, for the request path: never raises, and counts what cannot be kept."""
        try:
            self.change((kind, key, value), soon=True)
        except Exception:  # whatever is wrong with it, calls go on
            self.drops += 1

    def changes(self) -> Iterator[Change]:
        """What an empty store would have to be told to be like this one. Nothing may change meanwhile."""
        return ((kind, key, value) for kind, part in self._parts.items() for key, value in part.all())

    @property
    def count(self) -> int:
        """How many :meth:`changes` there are."""
        return sum(part.count for part in self._parts.values())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def health(self) -> Mapping[str, Json]:
        """How much it holds, and what was lost."""
        return {"executions": self.executions.count, "drops": self.drops}


class MemoryCatalog:
    """Implements :class:`pml_hookspecs.CatalogCache`."""

    def __init__(self, changes: Changes) -> None:
        """Tell these."""
        self._changes = changes
        self.tools: MemoryTable[tuple[str, Sequence[CatalogEntry]]] = MemoryTable()
        self.reports: MemoryTable[ServerStatus] = MemoryTable()

    async def replace(self, server: str, fingerprint: str, entries: Sequence[CatalogEntry]) -> None:
        """Make ``entries`` all that ``server`` has."""
        # A server that lists a name twice means the last one, like a JSON object with a member twice.
        named = {entry.name: entry for entry in entries}
        self._changes.change(("tools", server, (fingerprint, [named[name] for name in sorted(named)])))

    async def entries(self, server: str, fingerprint: str) -> Sequence[CatalogEntry]:
        """By tool name; empty under another fingerprint."""
        known, entries = self.tools.values.get(server, ("", []))
        return list(entries) if known == fingerprint else []

    async def report(self, status: ServerStatus) -> None:
        """Remember how a server is doing."""
        self._changes.change(("server", status.name, status))

    async def statuses(self) -> Sequence[ServerStatus]:
        """By name."""
        return sorted(self.reports.values.values(), key=lambda status: status.name)


class MemorySecrets:
    """Implements :class:`pml_hookspecs.Secrets`."""

    def __init__(self, changes: Changes) -> None:
        """Tell these."""
        self._changes = changes
        self.kept: MemoryTable[str] = MemoryTable()

    async def get(self, owner: str, name: str) -> str | None:
        """None when there is none."""
        return self.kept.values.get((owner, name))

    async def put(self, owner: str, name: str, value: str | None) -> None:
        """Keep ``value``; None forgets."""
        self._changes.change(("secret", (owner, name), value))
