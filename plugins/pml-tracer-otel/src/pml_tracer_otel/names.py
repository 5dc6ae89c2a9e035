"""Names of attributes and metrics.

OpenTelemetry's conventions for MCP and generative AI are in development and live in a repository of their own; its
Python package has none of them any more. Names that begin with ``pml.`` are the gateway's own.
"""

from __future__ import annotations

METHOD = "mcp.method.name"
PROTOCOL_VERSION = "mcp.protocol.version"
OPERATION = "gen_ai.operation.name"
TOOL = "gen_ai.tool.name"
ARGUMENTS = "gen_ai.tool.call.arguments"
ERROR = "error.type"
RPC_STATUS = "rpc.response.status_code"
USER = "user.id"

EXECUTION = "pml.execution.id"
KIND = "pml.execution.kind"
STATUS = "pml.execution.status"
FAILURE = "pml.failure.code"
SERVER = "pml.server"
MODE = "pml.exposure_mode"
ENDPOINT = "pml.endpoint"
CLIENT = "pml.client"
DRY_RUN = "pml.dry_run"

TOOLS_CALL = "tools/call"
EXECUTE_TOOL = "execute_tool"
INVOKE_WORKFLOW = "invoke_workflow"
TOOL_ERROR = "tool_error"
"""Error of a tool whose result says ``isError``."""
OTHER = "_OTHER"
"""Error of which nothing is known."""
OVERFLOW = "otel.metric.overflow"
"""Marks the series that stands for all those that are too many."""

TRACEPARENT, TRACESTATE, BAGGAGE = "traceparent", "tracestate", "baggage"
"""Keys of a request's ``_meta`` (SEP-414); without a prefix, unlike all others."""
