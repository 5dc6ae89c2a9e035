"""Servers that people use, and a visit to each that tries what it is used for."""

from __future__ import annotations

import base64
import os
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from .visit import Server, Visit

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
GIT_ENVIRONMENT = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
}


@dataclass(frozen=True)
class Plan:
    """One server and what is done with it."""

    server: Server
    prepare: Callable[[], None]
    """Makes the place what it was before the first visit."""
    visit: Visit
    needs_to_be_alone: frozenset[str] = frozenset()
    """Steps that a gateway with several servers cannot know the right one for."""


def nothing():
    """There is nothing to prepare."""


def filesystem(node, python, folder, site):
    files = folder / "files"

    def prepare():
        (files / "notes").mkdir(parents=True, exist_ok=True)
        (files / "readme.txt").write_text("first line\nsecond line\n")
        (files / "pixel.png").write_bytes(base64.b64decode(PIXEL))
        (files / "notes" / "new.txt").unlink(missing_ok=True)

    async def visit(v):
        await v.call("list_allowed_directories")
        await v.call("list_directory", {"path": str(files)})
        await v.call("read_text_file", {"path": str(files / "readme.txt"), "head": 1})
        await v.call("write_file", {"path": str(files / "notes" / "new.txt"), "content": "grüß dich ✓\n"})
        edit = {"oldText": "second", "newText": "2nd"}
        await v.call("edit_file", {"path": str(files / "readme.txt"), "edits": [edit], "dryRun": True})
        await v.call("directory_tree", {"path": str(files)})
        await v.call("search_files", {"path": str(files), "pattern": "**/*.txt"})
        await v.call("read_media_file", {"path": str(files / "pixel.png")})
        await v.call("read_multiple_files", {"paths": [str(files / "readme.txt"), str(files / "gone.txt")]})
        await v.call("read_text_file", {"path": str(files / "gone.txt")})
        await v.call("read_text_file", {"path": "/etc/hostname"})

    script = node / "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
    return Plan(Server(name="files", command=[str(node / "node"), str(script), str(files)]), prepare, visit)


def memory(node, python, folder, site):
    graph = folder / "memory.jsonl"

    async def visit(v):
        tide = {"name": "tide", "entityType": "movement", "observations": ["twice a day"]}
        moon = {"name": "moon", "entityType": "body", "observations": []}
        await v.call("create_entities", {"entities": [tide, moon]})
        await v.call("create_relations", {"relations": [{"from": "moon", "to": "tide", "relationType": "causes"}]})
        await v.call("add_observations", {"observations": [{"entityName": "moon", "contents": ["it is far"]}]})
        await v.call("search_nodes", {"query": "twice"})
        await v.call("open_nodes", {"names": ["moon", "nobody"]})
        await v.call("read_graph")
        await v.call("add_observations", {"observations": [{"entityName": "nobody", "contents": ["x"]}]})

    script = node / "node_modules/@modelcontextprotocol/server-memory/dist/index.js"
    server = Server(name="memory", command=[str(node / "node"), str(script)], env={"MEMORY_FILE_PATH": str(graph)})
    return Plan(server, lambda: graph.unlink(missing_ok=True), visit)


def thought(number, **more):
    return {
        "thought": f"thought {number}",
        "nextThoughtNeeded": True,
        "thoughtNumber": number,
        "totalThoughts": 3,
        **more,
    }


def thinking_server(node, **options):
    script = node / "node_modules/@modelcontextprotocol/server-sequential-thinking/dist/index.js"
    return Server(name="thinking", command=[str(node / "node"), str(script)], options=options)


def thinking(node, python, folder, site):
    async def visit(v):
        await v.call("sequentialthinking", thought(1))
        await v.call("sequentialthinking", thought(2, branchFromThought=1, branchId="other"))
        await v.call("sequentialthinking", thought(3, nextThoughtNeeded=False))

    return Plan(thinking_server(node), nothing, visit)


def playwright_server(node, **options):
    script = node / "node_modules/@playwright/mcp/cli.js"
    command = [str(node / "node"), str(script), "--headless", "--isolated", "--executable-path", "/no/such/browser"]
    return Server(name="browser", command=command, options={"sharing": "per_client", **options})


def playwright(node, python, folder, site):
    async def visit(v):
        await v.call("browser_navigate", {"url": "about:blank"})

    return Plan(playwright_server(node), nothing, visit)


def time(node, python, folder, site):
    async def visit(v):
        await v.call("convert_time", {"source_timezone": "UTC", "time": "16:30", "target_timezone": "Asia/Tokyo"})
        await v.call("convert_time", {"source_timezone": "UTC", "time": "late", "target_timezone": "Asia/Tokyo"})
        await v.call("get_current_time", {"timezone": "Mars/Olympus"})

    command = [python["time"], "-m", "mcp_server_time", "--local-timezone", "UTC"]
    return Plan(Server(name="time", command=command), nothing, visit)


def git(node, python, folder, site):
    repository = folder / "repository"

    def run(*words):
        identity = ["-c", "user.name=A Tester", "-c", "user.email=tester@example.invalid"]
        command = ["git", *identity, "-C", str(repository), *words]
        subprocess.run(command, check=True, capture_output=True, env=GIT_ENVIRONMENT)

    def prepare():
        if not repository.exists():
            repository.mkdir()
            run("init", "--quiet", "--initial-branch=main")
            (repository / "tides.txt").write_text("high\n")
            run("add", ".")
            run("commit", "--quiet", "--message=Note the tide")
        run("reset", "--quiet", "--hard")
        run("branch", "--force", "spare", "main")
        subprocess.run(["git", "-C", str(repository), "branch", "-D", "fresh"], check=False, capture_output=True)
        (repository / "tides.txt").write_text("high\nlow\n")

    async def visit(v):
        where = {"repo_path": str(repository)}
        await v.call("git_status", where)
        await v.call("git_diff_unstaged", where)
        await v.call("git_add", {**where, "files": ["tides.txt"]})
        await v.call("git_diff_staged", {**where, "context_lines": 1})
        await v.call("git_log", {**where, "max_count": 1})
        await v.call("git_show", {**where, "revision": "main"})
        await v.call("git_create_branch", {**where, "branch_name": "fresh"})
        await v.call("git_branch", {**where, "branch_type": "local"})
        await v.call("git_show", {**where, "revision": "nowhere"})
        await v.call("git_status", {"repo_path": "/"})

    command = [python["git"], "-m", "mcp_server_git", "--repository", str(repository)]
    return Plan(Server(name="git", command=command), prepare, visit)


def sqlite(node, python, folder, site):
    database = folder / "station.db"

    def prepare():
        database.unlink(missing_ok=True)
        sqlite3.connect(database).close()

    async def visit(v):
        await v.call("create_table", {"query": "CREATE TABLE tide (hour INTEGER, metres REAL)"})
        await v.call("write_query", {"query": "INSERT INTO tide VALUES (12, 3.5), (18, NULL)"})
        await v.call("read_query", {"query": "SELECT * FROM tide ORDER BY hour"})
        await v.call("list_tables")
        await v.call("describe_table", {"table_name": "tide"})
        await v.call("append_insight", {"insight": "High water is at noon."})
        await v.read("memo://insights")
        await v.prompt("mcp-demo", {"topic": "tides"})
        await v.call("read_query", {"query": "SELECT * FROM nothing"})
        await v.call("read_query", {"query": "DELETE FROM tide"})
        await v.read("memo://nothing")
        await v.prompt("mcp-demo", {})

    command = [python["sqlite"], "-c", "from mcp_server_sqlite import main; main()", "--db-path", str(database)]
    return Plan(Server(name="sqlite", command=command), prepare, visit, frozenset({"read memo://nothing"}))


def fetch(node, python, folder, site):
    async def visit(v):
        await v.call("fetch", {"url": f"{site}/"})
        await v.call("fetch", {"url": f"{site}/", "raw": True, "max_length": 20})
        await v.call("fetch", {"url": f"{site}/data.json"})
        await v.prompt("fetch", {"url": f"{site}/private"})
        await v.call("fetch", {"url": f"{site}/private/diary"})
        await v.call("fetch", {"url": f"{site}/gone"})
        await v.prompt("fetch", {})

    command = [python["fetch"], "-m", "mcp_server_fetch", "--allow-private-ips"]
    # Where it finds Node it runs npm in its own package at the first call, which several at once do not survive.
    without_node = {"PATH": str(folder)}
    return Plan(Server(name="fetch", command=command, env=without_node), nothing, visit)


ALL = (filesystem, memory, thinking, playwright, time, git, sqlite, fetch)
"""Each makes a :class:`Plan`, given Node's folder, the interpreters, a folder of its own and a web site's address."""
ERRORS = {"filesystem": 2, "memory": 1, "thinking": 0, "playwright": 1, "time": 2, "git": 2, "sqlite": 2, "fetch": 3}
"""Steps of each visit that must fail."""
