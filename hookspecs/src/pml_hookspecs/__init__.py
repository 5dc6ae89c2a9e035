"""The contract between the PML gateway and its plugins.

A plugin imports this package and its own dependencies, and nothing else of PML. Five kinds of driver are found by
entry point and named in the configuration (:class:`ExposureMode`, :class:`Executor`, :class:`Transport`,
:class:`Tracer`, :class:`Store`); hook plugins take effect because they are installed.
"""

from __future__ import annotations

from ._markers import PROJECT, hookimpl, hookspec
from .executor import CallNext, CapabilityRun, CodeRun, Executor, Run, Task, ToolCall, Workflow, Wrapper
from .exposure_mode import ExposureMode, SearchIndex, Selection, ToolFilter
from .gateway import Check, InvalidArguments, MetaTool
from .raw import EMPTY, RawObject, encode
from .services import Services
from .settings import setting
from .store import (
    AgentActivity,
    CatalogCache,
    ExecutionQuery,
    ExecutionRecord,
    Executions,
    Page,
    RecordStatus,
    Scope,
    Secrets,
    Store,
    Traces,
    Trigger,
)
from .tracer import Ended, Span, Tracer
from .transport import Accept, Endpoint, Handler, Link, Origin, Peer, RpcError, Transport, TransportError
from .types import (
    GATEWAY_SERVER,
    Catalog,
    CatalogEntry,
    ExecutionId,
    Failure,
    Json,
    Match,
    Outcome,
    Phase,
    ServerState,
    ServerStatus,
    Session,
    Status,
    ToolId,
    split_tool_id,
)

__all__ = [
    "EMPTY",
    "GATEWAY_SERVER",
    "PROJECT",
    "Accept",
    "AgentActivity",
    "CallNext",
    "CapabilityRun",
    "Catalog",
    "CatalogCache",
    "CatalogEntry",
    "Check",
    "CodeRun",
    "Ended",
    "Endpoint",
    "ExecutionId",
    "ExecutionQuery",
    "ExecutionRecord",
    "Executions",
    "Executor",
    "ExposureMode",
    "Failure",
    "Handler",
    "InvalidArguments",
    "Json",
    "Link",
    "Match",
    "MetaTool",
    "Origin",
    "Outcome",
    "Page",
    "Peer",
    "Phase",
    "RawObject",
    "RecordStatus",
    "RpcError",
    "Run",
    "Scope",
    "SearchIndex",
    "Secrets",
    "Selection",
    "ServerState",
    "ServerStatus",
    "Services",
    "Session",
    "Span",
    "Status",
    "Store",
    "Task",
    "ToolCall",
    "ToolFilter",
    "ToolId",
    "Tracer",
    "Traces",
    "Transport",
    "TransportError",
    "Trigger",
    "Workflow",
    "Wrapper",
    "encode",
    "hookimpl",
    "hookspec",
    "setting",
    "split_tool_id",
]
