"""Profiles of sandboxes with the servers that they are for: these work, and nothing else of the machine is there.

Needs the servers: ``PML_SERVERS_INSTALL=1`` installs what is missing.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from entries import read
from installing import AbsentError, installed

from pml_hookspecs import Endpoint
from pml_testing.transport import Recorder
from pml_transport_stdio import Stdio

LIMIT_S = 120.0
ENTRIES = {entry.name: entry for entry in read()}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")]


def program(name: str) -> str:
    try:
        return str(installed(ENTRIES[name], may_install=bool(os.environ.get("PML_SERVERS_INSTALL"))))
    except AbsentError as error:
        pytest.skip(f"needs the server {name} ({error}); PML_SERVERS_INSTALL=1 installs it")


async def answers(
    sandbox: Any,
    words: Sequence[str],
    calls: Sequence[tuple[str, Mapping[str, Any]]],
    env: Mapping[str, str] | None = None,
) -> list[str]:
    """What a server answers, one text for each call; those that are errors begin with an exclamation mark."""
    options = {"sandbox": sandbox}
    endpoint = Endpoint(name="real", address="stdio:" + shlex.join(words), env=env or {}, options=options)
    found = []
    async with asyncio.timeout(LIMIT_S), Stdio().connect(endpoint, Recorder()) as link:
        await link.request("initialize", HELLO, timeout_s=LIMIT_S)
        link.notify("notifications/initialized", {})
        for tool, arguments in calls:
            result = await link.request("tools/call", {"name": tool, "arguments": arguments}, timeout_s=LIMIT_S)
            text = "".join(str(block.get("text")) for block in result["content"])
            found.append(f"!{text}" if result.get("isError") else text)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "granted").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/secret.txt").write_text("secret")
    return tmp_path / "granted"


async def test_filesystem(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "other")
    path = str(folder / "note.txt")
    calls = [
        ("write_file", {"path": path, "content": "tea"}),
        ("read_text_file", {"path": path}),
        ("read_text_file", {"path": str(folder / "link/secret.txt")}),
    ]
    _, text, other = await answers("filesystem", [program("filesystem"), str(folder)], calls)
    assert text == "tea"
    assert "secret" not in other.replace("secret.txt", "")


async def test_memory(folder: Path) -> None:
    entity = {"name": "ada", "entityType": "person", "observations": ["likes tea"]}
    calls = [("create_entities", {"entities": [entity]}), ("read_graph", {})]
    env = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    _, graph = await answers("memory", [program("memory")], calls, env)
    assert "likes tea" in graph
    assert "likes tea" in (folder / "memory.jsonl").read_text()


async def test_time(folder: Path) -> None:
    (text,) = await answers("time", [program("time")], [("get_current_time", {"timezone": "Europe/Berlin"})])
    assert "Europe/Berlin" in text


@pytest.fixture
def repository(folder: Path) -> Path:
    (folder / "a").write_text("a")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


async def test_git(repository: Path) -> None:
    author = {"GIT_AUTHOR_NAME": "ada", "GIT_AUTHOR_EMAIL": "ada@example.com"}
    author |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in author.items()}
    place = {"repo_path": str(repository)}
    calls = [
        ("git_add", {**place, "files": ["a"]}),
        ("git_commit", {**place, "message": "first"}),
        ("git_log", place),
        ("git_status", {"repo_path": str(repository.parent / "other")}),
    ]
    said = await answers("git", [program("git"), "--repository", str(repository)], calls, author)
    assert "first" in said[2]
    assert said[3].startswith("!")


async def test_sqlite(folder: Path) -> None:
    calls = [
        ("create_table", {"query": "CREATE TABLE notes (text TEXT)"}),
        ("write_query", {"query": "INSERT INTO notes VALUES ('tea')"}),
        ("read_query", {"query": "SELECT * FROM notes"}),
    ]
    said = await answers("sqlite", [program("sqlite"), "--db-path", str(folder / "notes.db")], calls)
    assert "tea" in said[2]
    assert (folder / "notes.db").exists()


async def test_fetch(folder: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"
        )
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        calls = [("fetch", {"url": f"http://localhost:{port}/"})]
        words = [program("fetch"), "--ignore-robots-txt"]
        named = {"profile": "fetch", "network": [f"localhost:{port}"]}
        star = {"profile": "fetch", "network": [f"*:{port}"]}
        assert "hello" in (await answers(named, words, calls))[0]
        assert (await answers(star, words, calls))[0].startswith("!")
