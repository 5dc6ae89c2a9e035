"""The user's servers: connect, list, call, connect again.

``server.py`` is what the gateway sees of one server; ``connection/connection.py`` keeps one connection to it;
``extra_connections.py`` has the further ones that clients of their own or of the other era need.
"""

from __future__ import annotations

from .connection.connection import Connection
from .server import Server

__all__ = ["Connection", "Server"]
