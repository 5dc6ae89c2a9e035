from __future__ import annotations

import pytest

from pml_clients import secret_values


@pytest.mark.parametrize(
    ("table", "shown"),
    [
        ({"env": {"API_KEY": "abc"}}, {"env": {"API_KEY": "********"}}),
        ({"env": {"DEBUG": "1", "MODE": "fast", "T": "${T}"}}, {"env": {"DEBUG": "1", "MODE": "fast", "T": "${T}"}}),
        ({"env": {"NOTION": "x-17-y"}}, {"env": {"NOTION": "********"}}),
        ({"env": {"A": "${A:-s3cr3t}"}}, {"env": {"A": "********"}}),
        ({"headers": {"Authorization": "Bearer abc"}}, {"headers": {"Authorization": "Bearer ********"}}),
        ({"headers": {"Authorization": "Bearer ${T}"}}, {"headers": {"Authorization": "Bearer ${T}"}}),
        ({"args": ["--token", "abc", "-y"]}, {"args": ["--token", "********", "-y"]}),
        ({"args": ["--access-token=abc"]}, {"args": ["--access-token=********"]}),
        ({"args": ["-e", "API_KEY=abc"]}, {"args": ["-e", "API_KEY=********"]}),
        ({"args": ["--header", "Authorization: Bearer abc"]}, {"args": ["--header", "Authorization: Bearer ********"]}),
        ({"args": ["postgresql://me:pw@h/db"]}, {"args": ["postgresql://me:********@h/db"]}),
        ({"args": ["ghp_" + "a1" * 18]}, {"args": ["********"]}),
        ({"args": ["--port", "8080", "--auth", "oauth"]}, {"args": ["--port", "8080", "--auth", "oauth"]}),
        ({"args": ["git+https://h/x@" + "ab12" * 10]}, {"args": ["git+https://h/x@" + "ab12" * 10]}),
        ({"args": ["@modelcontextprotocol/server-sequential-thinking"]},) * 2,
        ({"url": "https://h/mcp?api_key=abcdef&x=1"}, {"url": "https://h/mcp?api_key=********&x=1"}),
        ({"url": "https://h/s/Ab1" + "Cd2" * 10 + "/mcp"}, {"url": "https://h/s/********/mcp"}),
        ({"token": "tok-5", "limit": 5}, {"token": "********", "limit": 5}),
        (
            {"options": {"token": "tok-5", "spec": "https://h/a.json", "auth": [{"password": "p w"}]}},
            {"options": {"token": "********", "spec": "https://h/a.json", "auth": [{"password": "********"}]}},
        ),
        (
            {"args": "not a list", "env": 5, "url": None, "headers": {"A": 1}},
            {"args": "not a list", "env": 5, "url": None},
        ),
    ],
)
def test_secrets_are_masked_and_the_rest_is_shown(table, shown):
    masked = secret_values.masked(table)
    assert {key: masked[key] for key in shown} == shown


@pytest.mark.parametrize(
    "arg",
    [
        "@modelcontextprotocol/server-filesystem@2025.8.21",
        "secret-manager-mcp-server",
        "npm-package-search-mcp-server",
        "mcp/brave-search:latest",
        "mcp-server-sqlite",
        "/Users/me/Documents/My Project 2025/src",
        "C:\\Users\\Me\\AppData\\Roaming\\x.js",
        "--from=git+https://github.com/oraios/serena",
        "https://mcp.example.com/v1/sse",
        "123e4567-e89b-12d3-a456-426614174000",
        "ghcr.io/github/github-mcp-server@sha256:" + "0123abcd" * 8,
    ],
)
def test_packages_paths_and_addresses_are_not_taken_for_secrets(arg):
    assert secret_values.found_in({"args": [arg], "url": arg}) == []


@pytest.mark.parametrize(
    "value",
    [
        "sk-ant-api03-" + "aB3_" * 20,
        "sk-proj-1234567890abcdef",
        "ntn_1234567890abcdefgh",
        "xoxb-123456789012-abcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
        "glpat-abcdefghijklmnopqrst",
        "0123456789abcdef" * 2,
        "-----BEGIN RSA PRIVATE KEY-----\nabc",
    ],
)
def test_a_shape_tells_a_secret(value):
    assert [s.value for s in secret_values.found_in({"args": ["run", value], "env": {"X": f"see {value}"}})] == [
        value,
        value,
    ]


def test_a_text_of_very_many_names_is_looked_through():
    args = ["--header=Authorization: Bearer abc", "x=" * 5000]
    assert secret_values.masked({"args": args})["args"] == ["--header=Authorization: Bearer ********", args[1]]


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "apiKey", "X-API-Key", "PGPASSWORD", "client-secret", "Cookie"])
def test_a_name_tells_a_secret(name):
    assert [s.value for s in secret_values.found_in({"env": {name: "sesame"}})] == ["sesame"]


@pytest.mark.parametrize(
    ("name", "value"), [("SSH_AUTH_SOCK", "/run/x"), ("KEY_FILE", "/k.pem"), ("MAX_TOKEN", "4096"), ("AUTH", "none")]
)
def test_what_only_sounds_secret_is_left(name, value):
    assert secret_values.found_in({"env": {name: value}}) == []
