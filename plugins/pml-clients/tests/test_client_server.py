from __future__ import annotations

import pytest

from pml_clients.client_configs import ImportedServer, servers_in


def one(raw: object) -> ImportedServer:
    (server,) = servers_in({"mcpServers": {"git": raw}}, "mcp.json")
    return server


def test_what_is_not_used_becomes_a_note():
    assert one({"command": "x", "autoApprove": ["a"]}).notes == ("autoApprove is not used by PML",)


@pytest.mark.parametrize(("kind", "kept", "left"), [("http", "url", "command"), ("stdio", "command", "url")])
def test_of_a_command_and_a_url_the_type_decides(kind, kept, left):
    server = one({"type": kind, "command": "x", "url": "https://h"})
    assert list(server.table()) == [kept]
    assert any(note.startswith(f"{left} is left out") for note in server.notes)


def test_what_means_nothing_for_a_url_is_left_out_with_a_note():
    server = one({"url": "https://h", "args": ["x"], "env": {"A": "b"}, "cwd": "/"})
    assert server.table() == {"url": "https://h", "protocol": "auto"}
    assert len(server.notes) == 3


@pytest.mark.parametrize("url", ["unix:///tmp/x.sock", "pipe:///pipe/x", "wss://h"])
def test_a_server_that_pml_cannot_connect_to_is_disabled(url):
    assert not one({"url": url}).enabled


def test_a_timeout_too_short_for_milliseconds_is_taken_for_seconds():
    server = one({"command": "x", "timeout": 60})
    assert server.timeout_s == 60.0
    assert "seconds" in server.notes[0]


def test_a_variable_that_only_the_editor_knows_is_kept_with_a_note():
    server = one({"command": "x", "args": ["${vault:/etc/x}"]})
    assert server.args == ("${vault:/etc/x}",)
    assert "${vault:/etc/x}" in server.notes[0]
