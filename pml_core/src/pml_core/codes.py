"""JSON-RPC error codes (JSON-RPC 2.0 §5.1; MCP, resources)."""

from __future__ import annotations

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
RESOURCE_NOT_FOUND = -32002
"""What servers of the revisions with a handshake answer."""
NO_CLIENT = -31999
"""Our own, outside the range that JSON-RPC and MCP reserve: there is no client to ask, or it cannot be known which."""
