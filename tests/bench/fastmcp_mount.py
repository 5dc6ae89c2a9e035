"""A gateway made with FastMCP: a proxy for each server, mounted under the server's name.

    PYTHON fastmcp_mount.py FILE

PYTHON has ``fastmcp``; FILE is a client's ``mcpServers`` JSON. Tools are listed as ``server_tool``. A transport that is
made here, rather than by FastMCP from the file, keeps its server running between calls.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

if __name__ == "__main__":
    gateway = FastMCP("fastmcp")
    for name, entry in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["mcpServers"].items():
        proxy = create_proxy(StdioTransport(command=entry["command"], args=entry["args"]), name=name)
        gateway.mount(proxy, namespace=name)
    gateway.run(show_banner=False, log_level="WARNING")
