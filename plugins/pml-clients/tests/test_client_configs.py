from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pml_clients import client_configs
from pml_clients.client_configs import ClientConfigError, ImportedServer, NoServersError, expand, read


def one(raw: object, *, where: str = "mcp.json", key: str = "mcpServers") -> ImportedServer:
    (server,) = read(json.dumps({key: {"git": raw}}), where)
    return server


def mistakes(tree: object) -> list[str]:
    with pytest.raises(ClientConfigError) as caught:
        read(json.dumps(tree), "mcp.json")
    first, *rest = str(caught.value).splitlines()
    assert first.startswith("mcp.json: ")
    return [line.strip() for line in rest]


def test_claude_desktop_writes_command_args_and_env():
    text = """{"mcpServers": {"files": {"command": "npx", "args": ["-y", "server-files", "/tmp"], "env": {"A": "b"}}},
               "globalShortcut": "Ctrl+Space"}"""
    (server,) = read(text, "claude_desktop_config.json")
    assert server == ImportedServer(name="files", command="npx", args=("-y", "server-files", "/tmp"), env={"A": "b"})
    assert server.table() == {"command": "npx", "args": ["-y", "server-files", "/tmp"], "env": {"A": "b"}}


def test_claude_code_writes_types_headers_and_milliseconds():
    tree = {
        "mcpServers": {
            "local": {"type": "stdio", "command": "${BIN:-uvx}", "args": ["x"], "env": {}},
            "far": {
                "type": "http",
                "url": "https://h/mcp",
                "headers": {"Authorization": "Bearer ${T}"},
                "timeout": 5000,
            },
            "old": {"type": "sse", "url": "https://h/sse"},
        }
    }
    local, far, old = read(json.dumps(tree), ".mcp.json")
    assert local.table() == {"command": "${BIN:-uvx}", "args": ["x"]}
    assert far.table() == {"url": "https://h/mcp", "headers": {"Authorization": "Bearer ${T}"}, "timeout_s": 5.0}
    assert (local.notes, far.notes) == ((), ())
    assert (old.table(), old.notes) == ({"url": "https://h/sse", "protocol": "auto"}, ())


CLAUDE_STATE = {
    "numStartups": 3,
    "mcpServers": {"shared": {"command": "a"}, "git": {"command": "everywhere"}},
    "projects": {
        "/home/me/one": {
            "allowedTools": [],
            "mcpServers": {"git": {"command": "one"}},
            "disabledMcpServers": ["shared"],
        },
        "/home/me/two": {"mcpServers": {"git": {"command": "two"}, "shared": {"command": "a"}}},
        "/home/me/none": {"history": []},
    },
}


def test_claude_code_servers_of_the_project_take_the_place_of_those_for_all():
    shared, git = read(json.dumps(CLAUDE_STATE), ".claude.json", project=Path("/home/me/one"))
    assert (git.name, git.command) == ("git", "one")
    assert "takes the place" in git.notes[-1]
    assert not shared.enabled
    assert shared.table() == {"command": "a", "enabled": False}


def test_without_a_project_all_of_claude_codes_servers_are_read_and_equal_ones_once():
    servers = read(json.dumps(CLAUDE_STATE), ".claude.json")
    assert [(s.name, s.command) for s in servers] == [
        ("shared", "a"),
        ("git", "everywhere"),
        ("git-2", "one"),
        ("git-3", "two"),
    ]
    assert servers[2].notes == ('is called "git" there',)


def test_cursor_has_variables_for_folders_and_the_environment():
    server = one(
        {
            "command": "${userHome}/bin/x",
            "args": ["${workspaceFolder}${pathSeparator}src", "${env:HOST}"],
            "envFile": "${workspaceFolder}/.env",
        }
    )
    assert server.command == "${HOME}/bin/x"
    assert server.args == ("./src", "${env:HOST}")
    assert server.env_file == ".env"
    assert any("folder that PML starts in" in note for note in server.notes)


def test_vs_code_writes_servers_with_comments_inputs_and_trailing_commas():
    text = """\ufeff{
      // asked for once
      "inputs": [{"type": "promptString", "id": "api-key", "description": "Perplexity key", "password": true},],
      "servers": {
        "perplexity": {
          "type": "stdio", "command": "npx", /* not "uvx" */
          "args": ["http://x//y", ],
          "env": {"KEY": "${input:api-key}", "PORT": 80, "GONE": null},
        },
      },
    }"""
    (server,) = read(text, ".vscode/mcp.json")
    assert server.args == ("http://x//y",)
    assert server.env == {"KEY": "${API_KEY}", "PORT": "80"}
    assert any("API_KEY" in note and "Perplexity key" in note for note in server.notes)
    assert any(note.startswith("GONE is left out") for note in server.notes)


@pytest.mark.parametrize(
    "tree", [{"mcp": {"servers": {"git": {"command": "x"}}}}, {"mcp.servers": {"git": {"command": "x"}}}]
)
def test_vs_code_settings_hold_servers_too(tree):
    assert client_configs.looks_like(tree)
    assert [s.command for s in read(json.dumps(tree), "settings.json")] == ["x"]


def test_windsurf_writes_server_urls_and_disabled_tools():
    server = one({"serverUrl": "https://h/mcp", "headers": {"A": "${env:T}"}, "disabled": True, "disabledTools": ["x"]})
    assert server.table() == {
        "url": "https://h/mcp",
        "headers": {"A": "${env:T}"},
        "protocol": "auto",
        "tools": {"deny": ["x"]},
        "enabled": False,
    }
    assert server.notes == ()


def test_gemini_writes_http_urls_and_dollar_names():
    tree = {
        "mcp": {"excluded": ["off"]},
        "mcpServers": {
            "far": {
                "httpUrl": "https://h/mcp",
                "headers": {"Authorization": "Bearer $TOKEN"},
                "timeout": 30000,
                "trust": True,
            },
            "near": {"command": "python", "cwd": "./x", "env": {"A": "$B"}, "includeTools": ["t"]},
            "off": {"command": "python"},
        },
    }
    far, near, off = read(json.dumps(tree), "settings.json")
    assert far.table() == {"url": "https://h/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "timeout_s": 30.0}
    assert near.table() == {"command": "python", "cwd": "./x", "env": {"A": "${B}"}, "tools": {"allow": ["t"]}}
    assert (near.enabled, off.enabled) == (True, False)


def test_a_dollar_name_is_left_alone_where_the_client_does_not_expand_it():
    assert one({"command": "x", "env": {"PASSWORD": "$ecret"}}).env == {"PASSWORD": "$ecret"}
    assert one({"command": "x", "env": {"A": "$B"}}, where="/home/me/.gemini/settings.json").env == {"A": "${B}"}


@pytest.mark.parametrize(
    ("written", "usable"),
    [
        ("", "server"),
        ("pml", "pml-server"),
        ("my server", "my-server"),
        ("a:b", "a-b"),
        ("a__b", "a_b"),
        ("@scope/name", "scope-name"),
        ("  ", "server"),
        ("日本", "server"),
        ("_x", "x"),
    ],
)
def test_a_name_pml_cannot_use_is_changed_with_a_note(written, usable):
    (server,) = read(json.dumps({"mcpServers": {written: {"command": "x"}}}), "mcp.json")
    assert server.name == usable
    assert json.dumps(written) in server.notes[0]


def test_names_that_become_equal_get_numbers_and_a_name_as_written_keeps_its_place():
    tree = {"mcpServers": {name: {"command": "x"} for name in ("a b", "a:b", "a-b", "a-b-2")}}
    assert [s.name for s in read(json.dumps(tree), "x")] == ["a-b-3", "a-b-4", "a-b", "a-b-2"]


@given(st.lists(st.text(max_size=12), unique=True, max_size=8))
def test_any_names_become_usable_and_stay_apart(names):
    tree = {"mcpServers": {name: {"command": str(i)} for i, name in enumerate(names)}}
    servers = client_configs.servers_in(tree, "x")
    assert [s.command for s in servers] == [str(i) for i in range(len(names))]
    assert len({s.name for s in servers}) == len(names)
    for server in servers:
        assert server.name
        assert server.name[0].isalnum()
        assert server.name != "pml"
        assert "__" not in server.name
        assert set(server.name) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
    assert servers == client_configs.servers_in(tree, "x")


def test_all_mistakes_are_told_at_once_each_with_its_path():
    tree = {
        "mcpServers": {
            "git": {"command": "x", "args": ["a", 1], "env": {"A": True, "B=": "x"}, "timeout": -1, "disabled": "yes"},
            "my server": {},
            "list": {"command": ["npx", "x"]},
            "text": "npx",
            "args": {"command": "x", "args": "a b", "env": [], "cwd": 5},
        }
    }
    assert [line.partition(": ")[0] for line in mistakes(tree)] == [
        "mcpServers.git.args[1]",
        "mcpServers.git.env.A",
        'mcpServers.git.env["B="]',
        "mcpServers.git.timeout",
        "mcpServers.git.disabled",
        'mcpServers["my server"]',
        "mcpServers.list.command",
        "mcpServers.text",
        "mcpServers.args.args",
        "mcpServers.args.env",
        "mcpServers.args.cwd",
    ]


def test_a_mistake_says_what_to_do_and_repeats_no_value():
    (line,) = mistakes({"mcpServers": {"git": {"command": "x", "env": {"PIN": [987654]}}}})
    assert line == "mcpServers.git.env.PIN: must be text, is an array"
    (line,) = mistakes({"mcpServers": {"git": {}}})
    assert line.endswith("has neither command nor url; add one of them")


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_a_character_no_program_can_be_given_is_a_mistake(value):
    assert mistakes({"mcpServers": {"git": {"command": "x", "args": [value]}}})


@pytest.mark.parametrize("servers", [[], None, "x"])
def test_servers_that_are_no_object_are_a_mistake(servers):
    (line,) = mistakes({"mcpServers": servers})
    assert line.startswith("mcpServers: must be an object of servers")


def test_a_syntax_error_has_line_and_column():
    with pytest.raises(ClientConfigError, match=r"^x\.json:2:17: not valid JSON"):
        read('{ // comment\n  "mcpServers": oops }', "x.json")


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "[1]", "5", '{"a": 1}', "[servers.git]", "{", '{"mcpServers": {}} x', '{"mcpServers": NaN}'),
        *("/* never ends", '{"a": "\n"}', "[" * 100_000, '{"mcpServers": {"a": {"timeout": ' + "9" * 5000 + "}}}"),
    ],
)
def test_text_that_is_no_clients_file_gets_a_message(text):
    with pytest.raises(ClientConfigError, match=r"^x\.json"):
        read(text, "x.json")


@pytest.mark.parametrize(
    "tree", [{}, {"servers": {"a": {"command": "x", "timeout_s": 3}}}, {"gateway": {}, "servers": {}}]
)
def test_a_file_without_servers_of_a_client_is_told_apart(tree):
    assert not client_configs.looks_like(tree)
    with pytest.raises(NoServersError, match="mcpServers"):
        read(json.dumps(tree), "x.json")


@pytest.mark.parametrize(
    ("tree", "answer"),
    [
        ({"mcpServers": {}}, True),
        ({"mcpServers": []}, True),
        ({"servers": {}, "inputs": []}, True),
        ({"servers": {"a": {"command": "x"}}}, True),
        ({"projects": {"/p": {"mcpServers": {}}}}, True),
        ({"servers": {}}, False),
        ({"servers": {"a": {"address": "stdio:x"}}}, False),
        ({"servers": {"a": {"command": "x"}}, "plugins": {}}, False),
        ({"projects": {"/p": {}}}, False),
        ([], False),
        (None, False),
    ],
)
def test_a_clients_file_is_told_from_a_configuration_of_pml(tree, answer):
    assert client_configs.looks_like(tree) is answer


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["mcpServers", "command", "args", "env", "url", "headers", "timeout", "type", "mcp", "servers", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(json_values)
def test_any_json_gives_servers_or_a_message(value):
    told = ""
    servers = []
    try:
        servers = read(json.dumps({"mcpServers": value}), "x.json")
    except ClientConfigError as exc:
        told = str(exc)
    assert told.startswith("x.json: ") or (not told and all(s.command or s.url for s in servers))


@pytest.mark.parametrize(
    ("value", "text", "missing"),
    [
        ("plain $A {A} ${", "plain $A {A} ${", ()),
        ("${A}/${env:A}", "1/1", ()),
        ("${NO}-${env:NO}-${ALSO}", "${NO}-${env:NO}-${ALSO}", ("NO", "ALSO")),
        ("${NO:-x y}", "x y", ()),
        ("${NO:-}", "", ()),
        ("${EMPTY:-d}${EMPTY}", "d", ()),
        ("${A:-d}", "1", ()),
        ("${NESTED}", "${A}", ()),
        ("${input:a} ${1A}", "${input:a} ${1A}", ()),
    ],
)
def test_references_are_filled_in(value, text, missing):
    assert expand(value, {"A": "1", "EMPTY": "", "NESTED": "${A}"}) == (text, missing)


def test_known_files_name_every_client_with_the_projects_file_first():
    files = client_configs.known_files(Path("/home/me"), Path("/home/me/project"))
    assert {client for client, _ in files} == set(client_configs.CLIENTS)
    assert [path for client, path in files if client == "claude-code"] == [
        Path("/home/me/project/.mcp.json"),
        Path("/home/me/.claude.json"),
    ]
    paths = [path.as_posix() for _, path in files]
    for expected in (
        "/home/me/Library/Application Support/Claude/claude_desktop_config.json",
        "/home/me/AppData/Roaming/Claude/claude_desktop_config.json",
        "/home/me/.config/Code/User/mcp.json",
        "/home/me/project/.vscode/mcp.json",
        "/home/me/.codeium/windsurf/mcp_config.json",
        "/home/me/.gemini/settings.json",
    ):
        assert expected in paths


def test_known_files_are_named_once_when_the_project_is_the_home():
    files = client_configs.known_files(Path("/home/me"), Path("/home/me"))
    assert len(files) == len(set(files))


@pytest.mark.parametrize(
    ("command", "args", "answer"),
    [
        ("pml", ["serve"], True),
        ("/opt/bin/pml", ["serve", "--config", "x"], True),
        ("C:\\Tools\\pml.exe", ["serve"], True),
        ("uvx", ["--from", "pml-core", "pml", "serve"], True),
        ("python", ["-m", "pml_core", "serve"], True),
        ("npx", ["serve"], False),
        ("npx", ["serve", "pml"], False),
        ("pml-helper", ["serve"], False),
    ],
)
def test_the_gateway_knows_itself(command, args, answer):
    assert client_configs.is_gateway(one({"command": command, "args": args})) is answer


def test_reading_clients_files_imports_nothing_heavy():
    code = "import sys, pml_clients.client_configs; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "rich", "mcp", "yaml", "tomllib", "structlog"} & set(loaded)


@pytest.mark.parametrize(
    ("command", "args", "env", "names"),
    [
        ("docker", ["run", "-i", "--rm", "-e", "GITHUB_TOKEN", "image"], {}, ["GITHUB_TOKEN"]),
        ("docker", ["run", "--env=GITHUB_TOKEN", "--env", "B", "-e", "C=1", "image"], {"B": "x"}, ["GITHUB_TOKEN"]),
        ("sh", ["-c", "exec server --token $API_KEY --home $HOME"], {}, ["API_KEY"]),
        ("npx", ["-y", "server"], {"TOKEN": "x"}, None),
    ],
)
def test_a_server_gets_by_name_what_its_command_line_mentions(command, args, env, names):
    tree = {"mcpServers": {"one": {"command": command, "args": args, "env": env}}}
    (server,) = client_configs.servers_in(tree, "x")
    assert server.table().get("inherit_env") == names
