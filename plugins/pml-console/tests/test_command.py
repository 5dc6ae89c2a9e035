from __future__ import annotations

import argparse
import json
import socket

import pytest

from pml_console.command import free_port, lazy_servers
from pml_kit.errors import OperatorError


def given(config):
    return argparse.Namespace(config=config, overrides=[], mode=None)


def test_servers_wait_for_a_call(tmp_path, monkeypatch):
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"a": {"command": "x"}, "b.c": {"command": "y"}}}))
    assert lazy_servers(given(config)) == ["servers.a.start=lazy"]


def test_a_configuration_that_cannot_be_read_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    with pytest.raises(OperatorError):
        lazy_servers(given(tmp_path / "nothing.json"))


def test_a_port_that_somebody_has_is_told_before_anybody_follows_a_link_there():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OperatorError, match="cannot be served"):
            free_port(taken.getsockname()[1])
    assert free_port(0) > 0
