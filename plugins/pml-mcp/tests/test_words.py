"""What results of servers may decide, as it is configured."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pml_mcp.clients.status import LiveConnections
from pml_mcp.server_settings import ServerSettings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"command": "server"}, "trusted"),
        ({"url": "https://tools.example/mcp"}, "untrusted"),
        ({"url": "http://10.0.0.7:8000/mcp"}, "untrusted"),
        ({"url": "http://localhost.evil.example/mcp"}, "untrusted"),
        ({"url": "http://127.0.0.1@evil.example/mcp"}, "untrusted"),
        ({"url": "http://localhost:8000/mcp"}, "trusted"),
        ({"url": "http://127.0.0.1/mcp"}, "trusted"),
        ({"url": "http://[::1]:1/mcp"}, "trusted"),
        ({"address": "http:https://tools.example/mcp"}, "untrusted"),
        ({"address": "stdio:server"}, "trusted"),
        ({"url": "https://tools.example/mcp", "words": "trusted"}, "trusted"),
        ({"command": "mail", "words": "strangers"}, "strangers"),
    ],
)
def test_only_servers_on_other_machines_are_untrusted_by_themselves(settings, words):
    servers = {"s": SimpleNamespace(settings=ServerSettings(**settings))}
    assert LiveConnections((), servers).words() == {"s": words}
