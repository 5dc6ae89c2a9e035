"""Codex's ``config.toml`` as a source of servers."""

from __future__ import annotations

import pytest

from pml_clients import client_configs

FILE = """\
model = "a-model"
[mcp_servers.git]
command = "uvx"
args = ["mcp-server-git"]
env = { A = "1" }
env_vars = ["TOKEN", "A"]
cwd = "/repo"
tool_timeout_sec = 90
startup_timeout_sec = 20
enabled_tools = ["log"]

[mcp_servers.far]
url = "https://host/mcp"
bearer_token_env_var = "FAR_TOKEN"
http_headers = { X-Region = "eu" }
env_http_headers = { X-Key = "FAR_KEY" }
enabled = false

[mcp_servers.pml]
command = "pml"
args = ["serve"]
"""


def test_all_that_a_server_says_is_taken_over_or_noted():
    git, far, _ = client_configs.read(FILE, "config.toml")
    assert git.table() == {
        "command": "uvx",
        "args": ["mcp-server-git"],
        "env": {"A": "1", "TOKEN": "${TOKEN:-}"},
        "cwd": "/repo",
        "timeout_s": 90.0,
        "tools": {"allow": ["log"]},
    }
    assert [note.split()[0] for note in git.notes] == ["startup_timeout_sec"]
    assert far.table() == {
        "url": "https://host/mcp",
        "headers": {"X-Region": "eu", "X-Key": "${FAR_KEY}", "Authorization": "Bearer ${FAR_TOKEN}"},
        "enabled": False,
    }
    assert far.notes == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[mcp_servers.git", "not valid TOML"),
        ('model = "x"', "mcp_servers (Codex)"),
        ("[mcp_servers]\ngit = 5", "mcp_servers.git: must be an object"),
        ("mcp_servers = 5", "mcp_servers: must be an object of servers"),
        ("[mcp_servers.git]\nargs = []", "mcp_servers.git: has neither command nor url"),
        ('[mcp_servers.git]\nurl = "https://h"\nhttp_headers = 5', "mcp_servers.git.headers: must be an object"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_message(text, said):
    with pytest.raises(client_configs.ClientConfigError) as caught:
        client_configs.read(text, "config.toml")
    assert said in str(caught.value)
