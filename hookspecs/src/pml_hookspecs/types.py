"""Values that cross the plugin boundary. Immutable, JSON-friendly, and free of gateway internals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, Literal, NewType, Protocol, TypeAlias

from msgspec import Struct

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None

ToolId = NewType("ToolId", str)
"""``"<server>:<tool>"``, e.g. ``"filesystem:read_file"``; split at the first colon. Internal: clients see another
spelling (``filesystem__read_file``), which the gateway maps back. ``Catalog.resolve`` accepts both."""

ExecutionId = NewType("ExecutionId", str)
"""UUIDv7 text (RFC 9562): sorts by start time."""

GATEWAY_SERVER = "pml"
"""Name of the server that the gateway's own tools belong to; no ``[servers.pml]`` may exist."""

AGENTS_SERVER = "agents"
"""Name of the server whose tools are the configured agents, each under its own name, where a plugin publishes it."""

CLIENT_PREFIX = "client:"
"""What stands before the name that a client gives itself, where a configured agent's name may stand as well."""


def split_tool_id(tool: str) -> tuple[str, str]:
    """``"a:b:c"`` → ``("a", "b:c")``; without a colon the server is ``""``."""
    server, colon, name = tool.partition(":")
    return (server, name) if colon else ("", tool)


class Identity(Struct, frozen=True, kw_only=True):
    """Who asks, and what that one may do: as its key says, or as whoever serves it knows."""

    principal: str
    """For whom: a person's name, or another that is unique. Who knows keys has to say it: what is left out would be
    everybody's."""
    access_key: str = ""
    """Public id of the key that it came with, never the key; ``""`` without one."""
    scopes: frozenset[str] = frozenset()
    agent: str = ""
    """The configured agent that acts, or that the key belongs to; ``""`` for a person or a system."""
    mode: str = ""
    """Name of an exposure mode; ``""`` for the endpoint's."""
    intent: str = ""
    """Hint at what it is about to do; ``""`` for the endpoint's."""
    execution_mode: Literal["", "real", "dry_run"] = ""
    """What a call does that does not say itself; ``""`` as at the endpoint, or as the gateway is configured."""
    dry_run_only: bool = False
    """True: whatever is asked for is rehearsed. The endpoint or the gateway may do so as well."""
    allow: tuple[str, ...] | None = None
    """Patterns of tool ids that it may have (``files:*``), as :func:`fnmatch.fnmatchcase` reads them; None for all."""
    deny: tuple[str, ...] = ()
    """Patterns of tool ids that it may not have, whatever :attr:`allow` says."""

    def members(self) -> dict[str, Any]:
        """What every identity has, to make a :class:`Session` or a :class:`Peer` with."""
        return {name: getattr(self, name) for name in Identity.__struct_fields__}


class Session(Identity, frozen=True, kw_only=True):
    """Who is asking, while the gateway serves one request.

    An identity, not a connection: two requests with the same :attr:`key` see the same tools, so caches use it. Its mode
    is the one that lists its tools, ``""`` where nothing is listed; its intent may come from the request's ``_meta``.
    """

    principal: str = "local"
    """As of every identity; ``"local"`` for whoever started the gateway on stdio."""
    key: str
    """Identity of the view: endpoint, principal, scopes, mode, intent hint and key."""
    endpoint: str = "default"
    """Which listener the request came in on; a listener can have its own exposure mode."""
    client: str = ""
    """``name/version`` the peer gave, or ``""``."""
    protocol: str = ""
    """MCP revision spoken with the client; ``""`` before the handshake."""
    effects: Literal["read", "write", "destroy"] = "destroy"
    """What may be done for it, by what tools say of themselves: only read; change, but destroy nothing; anything. What
    says nothing counts as destroying."""

    @property
    def actor(self) -> str:
        """Who acts for the principal, for people to read.

        A configured agent's name; else ``client:`` and the name that the client gives itself, which proves nothing and
        is never a configured agent's; ``""`` when it gives none.
        """
        name = self.client.partition("/")[0]
        return self.agent or (name and f"{CLIENT_PREFIX}{name}")


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One tool the gateway could show."""

    id: ToolId
    server: str
    definition: Mapping[str, Any]
    """Wire JSON, unknown members included: as the server sent it, or as the operator has it presented, under another
    name perhaps."""
    tokens: int
    """Roughly the size of the whole definition [UTF-8 bytes / 4]; ``pml_kit.mcp.tokens`` is nearer."""
    digest: str = ""
    """Changes when the definition changes: SHA-256 of its canonical JSON, hex."""
    meta: bool = False
    """True for the gateway's own tools that the meta-tool modes list."""
    memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Room for what others find out about it once, under names that begin with their package's."""

    @property
    def name(self) -> str:
        """The server's own name for the tool, whatever it is presented as."""
        return self.id.partition(":")[2]

    @property
    def description(self) -> str:
        """What is said about the tool; ``""`` for nothing."""
        return str(self.definition.get("description") or "")

    @property
    def own(self) -> bool:
        """True for tools that the gateway serves itself, listed or not."""
        return self.server == GATEWAY_SERVER


@dataclass(frozen=True, slots=True)
class Match:
    """A search hit."""

    id: ToolId
    score: float
    """Relevance in ``[0, 1]``."""


ServerState: TypeAlias = Literal["starting", "up", "idle", "down", "disabled"]
"""``idle``: not running, and started by the next call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """How one configured server is doing."""

    name: str
    state: ServerState
    reason: str = ""
    """Why it is not up, in one sentence with what to do; ``""`` when it is."""
    tools: int = 0
    """Tools known, also from an earlier run while the server is not up."""
    restarts: int = 0
    """Times it was started again since the gateway started."""
    description: str = ""
    """What it says about itself when it starts (MCP ``instructions``, else its title); ``""`` when nothing."""


class Catalog(Protocol):
    """Read-only view of every tool known right now, the gateway's own included."""

    @property
    def revision(self) -> str:
        """Changes whenever the set of tools or any definition changes."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[CatalogEntry]:
        """In ``(server, tool name)`` order."""
        ...

    def get(self, id: ToolId) -> CatalogEntry | None:
        """None when there is no such tool."""
        ...

    def resolve(self, name: str, session: Session | None = None) -> CatalogEntry | None:
        """The tool meant by ``name``; None if unknown.

        ``server:tool``, the spelling that clients see, an alias, or the tool's own name when only one server has it.
        With a session, as if there were no tools that a filter hides from it.
        """
        ...

    def exposed_name(self, id: ToolId) -> str:
        """The spelling that clients see for ``id``, at most 64 characters of ``[A-Za-z0-9_.-]``."""
        ...

    def allows(self, entry: CatalogEntry, session: Session) -> bool:
        """Whether every tool filter keeps ``entry`` for ``session``: what it does not, nobody may be told of."""
        ...

    def visible(self, session: Session) -> Collection[ToolId]:
        """Ids of the tools that :meth:`allows` keeps for ``session``, the gateway's own included.

        The same object for the same view of the same revision.
        """
        ...

    async def search(
        self,
        query: str,
        *,
        limit: int,
        min_score: float = 0.0,
        session: Session | None = None,
        keep: Callable[[CatalogEntry], bool] | None = None,
    ) -> Sequence[Match]:
        """Best matches first, ties by id; the gateway's own tools are not among them. An empty query finds nothing.

        Args:
            query: What is wanted, in any language.
            limit: Most matches.
            min_score: Least relevance in ``[0, 1]``.
            session: Who asks: only what the filters keep for it is found, and its scores tell nothing of the rest.
                None for the gateway's own work, which sees everything.
            keep: Only entries that it keeps are found, such as those of one server; None for all.
        """
        ...

    def servers(self, session: Session | None = None) -> Sequence[ServerStatus]:
        """Every configured server, by name; with a session, those that it may know of, and of each as much."""
        ...


class Status(StrEnum):
    """How a task ended."""

    OK = "ok"
    ERROR = "error"
    """The task ran and failed, or could not be run."""
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    DENIED = "denied"
    """A policy refused it; nothing ran."""
    SKIPPED = "skipped"
    """A task it needs did not end OK."""
    SIMULATED = "simulated"
    """Dry run: nothing ran. The output says where it came from."""
    INPUT_REQUIRED = "input_required"
    """Waiting for an answer or an approval; a durable record can resume it."""

    @property
    def good(self) -> bool:
        """Whether tasks that need this one may go on."""
        return self is Status.OK or self is Status.SIMULATED


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task did not end OK, in words a client can act on."""

    code: str
    """Stable and greppable, e.g. ``"tool.not_connected"``."""
    message: str
    """What, where and what to do."""
    retryable: bool = False
    """Whether the same call may succeed later."""
    details: Mapping[str, Json] = field(default_factory=dict)
    """More for programs. A server's own JSON-RPC error stands here as ``rpc: {code, message, data?}``."""


class Outcome(Struct, frozen=True, kw_only=True):
    """Result of one task."""

    task_id: str
    status: Status
    started_at: datetime
    """UTC, timezone-aware."""
    duration_ms: int
    """Wall time, rounded [ms]."""
    output: Json = None
    """Of a tool call: the server's ``CallToolResult``, as it came. Of any other task: a JSON value."""
    failure: Failure | None = None
    """None exactly when the status is ``OK`` or ``SIMULATED``."""
    cost_usd: float | None = None
    """What it cost, what ran inside included; None when nobody knows [USD]."""
    meta: Mapping[str, Json] | None = None
    """What is said of an output that has no room for it, by names such as ``pml/simulated``; a ``CallToolResult`` has
    its own ``_meta``. None for nothing."""


class Phase(IntEnum):
    """Where a wrapper sits; lower is further out.

    Within one, a wrapper may have members ``before`` and ``after``, tuples of plugins' names: it is outside of the
    wrappers of the former, and inside of those of the latter. ``core`` is the gateway's own; ``name?`` may be missing.
    One with ``direct = False`` is not around calls of tools that clients make by themselves, and costs these nothing.
    """

    OBSERVE = 100
    AUDIT = 200
    AUTHORIZE = 300
    VALIDATE = 400
    SUBSTITUTE = 500
    """Answers instead of running: dry run, replay, cache. After the checks, so a bad call fails in a dry run too;
    before limits, so a preview costs no quota."""
    APPROVE = 600
    """Asks a human."""
    LIMIT = 700
    """Quota, concurrency, time-out."""
    RETRY = 800
    ADAPT = 900
