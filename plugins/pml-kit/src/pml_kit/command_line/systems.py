"""Which systems the gateway runs on."""

from __future__ import annotations

import sys

SUPPORTED = "the gateway runs on Linux and macOS, and on Windows inside WSL"
REMEDY = "In PowerShell: wsl --install. Then install PML, and your MCP servers, in the Linux that it brings."


def gateway_runs_here() -> bool:
    """Whether the gateway runs on this one; what only reads and writes files works on every system."""
    return sys.platform != "win32"
