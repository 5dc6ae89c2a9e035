"""Words of the Model Context Protocol that both the core and transports must know.

There are two eras. Up to revision 2025-11-25 a connection begins with a handshake (``initialize``) and has state.
From 2026-07-28 on there is none: each request says in ``params._meta`` which revision it follows and what its client
can do, and a server that needs to ask something answers with ``resultType: "input_required"``.
"""

from __future__ import annotations

HANDSHAKE_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions with a handshake, oldest first."""
MODERN_REVISIONS = ("2026-07-28",)
"""Revisions without a handshake, oldest first."""

META_PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
"""Member of a modern request's ``_meta``: the revision. Its presence is what makes a request modern."""
META_CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META_ENVELOPE = frozenset({META_PROTOCOL_VERSION, META_CLIENT_CAPABILITIES, META_CLIENT_INFO, META_LOG_LEVEL})
"""What a modern request says about itself and its client."""
META_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
HEADER_SCHEMA_KEY = "x-mcp-header"
"""Member of a property in a tool's ``inputSchema``: HTTP clients repeat its value in a header of this name."""

LISTEN = "subscriptions/listen"
"""A request that is answered only when either end wants it over."""

CANCELLED, PROGRESS, LOG_MESSAGE = "notifications/cancelled", "notifications/progress", "notifications/message"
UPDATED = "notifications/resources/updated"
LIST_CHANGED = {kind: f"notifications/{kind}/list_changed" for kind in ("tools", "resources", "prompts")}
"""Notifications that a list is another one now, by what it lists, which is also the name of the capability."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
"""Revisions with a handshake; modern ones answer :data:`INVALID_PARAMS`."""
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042
