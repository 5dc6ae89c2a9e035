"""Stores: remember executions, spans and the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, Self, TypeAlias, TypeVar

if TYPE_CHECKING:
    from datetime import datetime

    from .records import ExecutionRecord, Trigger
    from .tracer import Ended
    from .types import CatalogEntry, ExecutionId, Json, ServerStatus

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Part of an ordered result."""

    items: Sequence[T]
    cursor: str | None
    """Pass back to get the next page; None on the last one. Opaque."""
    total: int
    """Matches over all pages, counted under the same scope; 1,000 of what is found by text may mean more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose records a query may see. Applied inside the store, so counts and totals cannot leak."""

    principals: frozenset[str] | None
    """None means everyone's (system scope); an empty set means nobody's."""
    agents: frozenset[str] = frozenset()
    """Configured agents whose executions it sees besides, whoever asked for them (:attr:`ExecutionRecord.as_agent`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionQuery:
    """Which executions. Every field given narrows the result."""

    scope: Scope
    since: datetime | None = None
    """UTC, inclusive."""
    agent: str | None = None
    principal: str | None = None
    """What this one asked for, of what the scope shows."""
    agents_only: bool = False
    """Only what configured agents did (:attr:`ExecutionRecord.as_agent`)."""
    statuses: frozenset[str] | None = None
    """Any of these values of :data:`RecordStatus`."""
    trigger: Trigger | None = None
    parent: ExecutionId | None = None
    """Children of this execution."""
    top_level: bool = False
    """Only what is not :attr:`ExecutionRecord.nested`."""
    include_dry_runs: bool = True
    text: str | None = None
    """Words that all occur, as words or as beginnings of words and whatever their case, in its intent, target, request,
    response or the message of its failure: of each, in the first 2048 characters. What is nested is
    not found by text. None or no words: any."""
    target: str | None = None
    """Of this tool, or with ``server:*`` of any tool of that server."""
    until: datetime | None = None
    """UTC, exclusive."""
    limit: int = 20
    """Page size, 1 to 100."""
    cursor: str | None = None


Grouping: TypeAlias = Literal["agent", "principal", "tool", "server", "key", "day"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What executions of one group add up to."""

    group: str
    """The agent, principal, tool id, server, key id, or day (``2026-11-21``, UTC)."""
    executions: int
    succeeded: int
    failed: int
    running: int
    cost_usd: float
    """Of those whose cost is known [USD]."""
    tokens_in: int
    tokens_out: int
    mean_duration_ms: int | None
    """None when nothing has ended."""
    last_started_at: datetime | None = None
    """When the last one began, where that was asked for (:meth:`Executions.activity`); None otherwise."""


class Executions(Protocol):
    """Executions. A read sees everything recorded before it began."""

    def record(self, record: ExecutionRecord) -> None:
        """Insert or replace by id, soon: queued now, durable within a tenth of a second or at the next flush.

        For the request path: never blocks and never raises. What a full queue drops is counted and reported by
        ``health``.
        """
        ...

    async def put(self, record: ExecutionRecord) -> None:
        """Insert or replace by id. Durable when it returns."""
        ...

    async def get(self, id: ExecutionId, scope: Scope, *, transcript: bool = False) -> ExecutionRecord | None:
        """None when it does not exist or is out of scope; the two are not told apart.

        Args:
            id: Which.
            scope: For whom.
            transcript: Whether to read :attr:`ExecutionRecord.transcript` as well.
        """
        ...

    async def find(self, query: ExecutionQuery) -> Page[ExecutionRecord]:
        """Newest first; ties by id, descending. Pages do not skip or repeat records present throughout.

        Raises:
            ValueError: ``limit`` is out of range or the cursor is not one of this store's.
        """
        ...

    async def activity(self, query: ExecutionQuery) -> Sequence[Total]:
        """As :meth:`totals` by agent, and when the last one began; most executions first, ties by agent."""
        ...

    async def totals(self, query: ExecutionQuery, by: Grouping) -> Sequence[Total]:
        """One row per group with a match, dearest first, then most executions, then by group; days in their order.

        Tools and servers are those of tool calls; of all else the group is ``""``. Ignores ``limit`` and ``cursor``.
        """
        ...

    async def prune(self, *, before: datetime | None = None, keep_bytes: int | None = None) -> int:
        """Delete executions that have ended, with what ran inside, their transcripts and spans, oldest first.

        In small steps, so that writing goes on meanwhile.

        Args:
            before: Those that started earlier; None for none by age.
            keep_bytes: As many as it takes for what is stored to be no larger [bytes]; None for none by size.

        Returns:
            How many executions without a parent were deleted.
        """
        ...


class Traces(Protocol):
    """Finished spans."""

    async def append(self, spans: Sequence[Ended]) -> None:
        """Add finished spans. Duplicate ``(trace_id, span_id)`` are ignored."""
        ...

    async def of(self, execution: ExecutionId, scope: Scope) -> Sequence[Ended]:
        """Spans of one execution in start order; empty when there are none or it is out of scope."""
        ...


class CatalogCache(Protocol):
    """The tools that each server had when last seen, so that a start need not wait for them."""

    async def replace(self, server: str, fingerprint: str, entries: Sequence[CatalogEntry]) -> None:
        """Make ``entries`` all that ``server`` has, atomically.

        Args:
            fingerprint: Changes with the server's configuration; entries are only valid for the same one.
        """
        ...

    async def entries(self, server: str, fingerprint: str) -> Sequence[CatalogEntry]:
        """By tool name; empty when nothing is known under this fingerprint."""
        ...

    async def report(self, status: ServerStatus) -> None:
        """Remember how a server is doing, for ``pml plugins doctor``."""
        ...

    async def statuses(self) -> Sequence[ServerStatus]:
        """The last report of each server, by name."""
        ...


class Secrets(Protocol):
    """What plugins must keep over restarts and show to nobody, such as tokens. In no record, log or export."""

    async def get(self, owner: str, name: str) -> str | None:
        """The text kept under ``owner`` (a plugin's name) and ``name``; None when there is none."""
        ...

    async def put(self, owner: str, name: str, value: str | None) -> None:
        """Keep ``value`` instead of what was there; None forgets it. Durable when it returns."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Something that a plugin keeps."""

    key: str
    """Unique in its collection; up to 512 characters."""
    value: Mapping[str, Any]
    """JSON."""
    version: int
    """1 when first kept, one more with each change."""
    marks: Mapping[str, str]
    """What it can be found by."""
    created_at: datetime
    """UTC."""
    changed_at: datetime
    """UTC."""
    expires_at: datetime | None = None
    """UTC; None when it never does. What has expired is not found any more and deleted some time later."""


class Documents(Protocol):
    """What plugins keep besides executions: learned code, recordings, approvals, keys, schedules.

    JSON objects in named collections (``<plugin>.<what>``), found by key or by marks. A read sees everything written
    before it began.
    """

    async def put(
        self,
        collection: str,
        key: str,
        value: Mapping[str, Any],
        *,
        marks: Mapping[str, str] | None = None,
        expires_at: datetime | None = None,
        if_version: int | None = None,
    ) -> int | None:
        """Keep ``value`` under ``key`` instead of what was there. Durable when it returns.

        Args:
            collection: Where.
            key: Under which name.
            value: Any JSON object.
            marks: Texts to find it by, each under a name; at most 8.
            expires_at: UTC; None for never.
            if_version: Write only if that is its version now; 0: only if there is none. So of several who try, one
                succeeds.

        Returns:
            The new version; None when ``if_version`` does not hold, and nothing was written.
        """
        ...

    def put_soon(
        self,
        collection: str,
        key: str,
        value: Mapping[str, Any],
        *,
        marks: Mapping[str, str] | None = None,
        expires_at: datetime | None = None,
    ) -> None:
        """As :meth:`put`, for the request path: queued now, durable within a tenth of a second or at the next flush.

        Never blocks and never raises. What a full queue drops is counted and reported by ``health``.
        """
        ...

    async def get(self, collection: str, key: str) -> Document | None:
        """None when there is none."""
        ...

    async def find(
        self,
        collection: str,
        *,
        marks: Mapping[str, str] | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Document]:
        """Those with all of these marks, last changed first, ties by key.

        Args:
            collection: Where.
            marks: Name and text; None for all.
            limit: Page size, 1 to 1000.
            cursor: Of the page before.

        Raises:
            ValueError: ``limit`` is out of range or the cursor is not one of this store's.
        """
        ...

    async def delete(self, collection: str, key: str) -> bool:
        """Whether there was one. Durable when it returns."""
        ...

    async def prune(self, collection: str, *, keep: int) -> int:
        """Delete all but the ``keep`` last changed, and what has expired; how many."""
        ...


class Store(Protocol):
    """Registered in ``pml.store``: ``Driver(settings, services)``. ``[gateway] store`` names the one in use.

    An async context manager: entered before and left after everything that writes to it. The parts share one
    connection and one lifetime. A store is used from many tasks at once. It migrates its own schema on entry and
    refuses, with a message, to open data written by a newer version of itself.
    """

    @property
    def executions(self) -> Executions: ...
    @property
    def traces(self) -> Traces: ...
    @property
    def catalog(self) -> CatalogCache: ...
    @property
    def secrets(self) -> Secrets: ...
    @property
    def documents(self) -> Documents: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None:
        """Write what is queued, then close."""
        ...

    async def health(self) -> Mapping[str, Json]:
        """Cheap self-check for ``pml plugins doctor``: path or address, schema version, size [bytes], drops."""
        ...
