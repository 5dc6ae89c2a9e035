"""What is recorded of an execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct, field

from .types import AGENTS_SERVER

if TYPE_CHECKING:
    from datetime import datetime

    from .types import ExecutionId, Failure, Json, Status

Trigger: TypeAlias = Literal["manual", "schedule", "agent", "mcp"]
RecordStatus: TypeAlias = "Status | Literal['pending', 'running']"


class ExecutionRecord(Struct, frozen=True, kw_only=True):
    """One execution: a tool call, a workflow, a piece of code, whoever asked for it."""

    id: ExecutionId
    parent: ExecutionId | None = None
    """The execution that dispatched it; None for what a client asked for."""
    kind: str
    """``"tool"``, ``"workflow"``, ``"code"``, ``"capability"``, or :attr:`ServerRequest.kind`."""
    target: str
    """The tool id, the language, the capability's id, :attr:`ServerRequest.name`; ``""`` for a workflow."""
    principal: str
    agent: str = ""
    """Who acted for the principal: :attr:`Session.actor`; of a configured agent's run, however it came to it, and of
    what ran inside, that agent."""
    trigger: Trigger = "mcp"
    intent: str = ""
    status: RecordStatus
    started_at: datetime
    """UTC, timezone-aware, to the microsecond."""
    duration_ms: int | None = None
    """None until it ends [ms]."""
    dry_run: bool = False
    request: Mapping[str, Any] = field(default_factory=dict)
    """Arguments or tasks, secrets taken out."""
    response: Json = None
    """The output, secrets taken out; ``{"truncated": true, "size_bytes": n, "head": text}`` when over the limit."""
    failure: Failure | None = None
    cost_usd: float | None = None
    """With what ran inside, but for the runs of agents in it, which have their own: so what is not :attr:`nested` adds
    up to what was spent. None when nobody knows [USD]."""
    tool_calls: Sequence[str] = ()
    """Tools called inside, in the order they ended."""
    endpoint: str = ""
    """Which way it came in; ``""`` for the gateway's own work."""
    mode: str = ""
    """The exposure mode that the client's tools were listed by."""
    as_agent: bool = False
    """True when :attr:`agent` is a configured agent; False when it is a name that a client gave itself."""
    access_key: str = ""
    """Public id of the key that it was asked for with."""
    schedule: str = ""
    """Id of the schedule that triggered it."""
    tokens_in: int | None = None
    """Read by models, or by the tool; None when nobody knows [tokens]."""
    tokens_out: int | None = None
    """Written by models, or by the tool; None when nobody knows [tokens]."""
    context_used: int | None = None
    """How full the agent's context was at the end [tokens]."""
    context_max: int | None = None
    """How much fits into it [tokens]."""
    transcript: Sequence[Mapping[str, Any]] | None = None
    """What an agent said and did, in order, secrets taken out. None when there is none, and in all that is read but
    what ``get`` was asked to read with it: it may be large."""

    @property
    def nested(self) -> bool:
        """Whether it is only a part of another one: what an agent did, rather than asked for, never is."""
        ran_by_agent = self.as_agent and self.kind == "tool" and self.target == f"{AGENTS_SERVER}:{self.agent}"
        return self.parent is not None and not ran_by_agent
