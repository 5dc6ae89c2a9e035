"""The user's servers: connect, list, call, connect again.

``server.py`` is what the gateway sees of one server; ``instance.py`` keeps one connection; ``others.py`` has the
further connections that clients of their own or of the other era need; ``eras.py`` knows how a conversation begins.
"""

from __future__ import annotations

from .connection.instance import Instance
from .server import Server
from .servers import Downstream

__all__ = ["Downstream", "Instance", "Server"]
