"""The user's servers: connect, list, call, connect again.

``server.py`` is what the gateway sees of one server; ``connection/connection.py`` keeps one connection to it;
``extra_connections.py`` has the further ones that clients of their own or of the other era need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .connection.connection import Connection
from .server import Server

if TYPE_CHECKING:
    from pml_mcp.server_settings import ServerSettings

__all__ = ["Connection", "Server", "kind_of"]


def kind_of(settings: ServerSettings) -> type[Server]:
    """What keeps a server with these settings."""
    if settings.sharing != "per_principal":
        return Server
    from .principals.server import PrincipalServer

    return PrincipalServer
