"""An MCP server with exactly the fixtures that the server scenarios of ``@modelcontextprotocol/conformance`` ask for.

``python tests/conformance/reference stdio`` serves one client on standard input and output,
``python tests/conformance/reference http PORT`` serves any number at ``http://127.0.0.1:PORT/mcp``. Both speak every
revision of the protocol that the SDK does, from 2024-11-05 to 2026-07-28; the client's first request says which.
"""

from __future__ import annotations

import argparse
import warnings

import anyio
import uvicorn
from events import Events
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPDeprecationWarning
from server import make_server

RETRY_MS = 500
"""After how long a client whose stream was closed comes back."""


async def serve_stdio() -> None:
    """Serve one client, until it closes our input."""
    server = make_server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def serve_http(port: int) -> None:
    """Serve until SIGTERM."""
    app = make_server().streamable_http_app(event_store=Events(), retry_interval=RETRY_MS)
    uvicorn.run(app, host="127.0.0.1", port=port, http="h11", log_level="warning", timeout_graceful_shutdown=1)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="reference", description=(__doc__ or "").partition("\n")[0])
    transports = parser.add_subparsers(dest="transport", required=True)
    transports.add_parser("stdio", help="on standard input and output")
    transports.add_parser("http", help="at http://127.0.0.1:PORT/mcp").add_argument("port", type=int)
    chosen = parser.parse_args()
    # The scenarios of the older revisions are about what the newest one deprecates.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    if chosen.transport == "stdio":
        anyio.run(serve_stdio)
    else:
        serve_http(chosen.port)


if __name__ == "__main__":
    main()
