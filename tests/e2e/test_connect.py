"""A client with servers of its own, before it is connected to PML, while it is, and after."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client

from .conftest import SERVERS
from .visit import PML

pytestmark = pytest.mark.anyio
STARTED_S = 120.0
META_TOOLS = {"call_tool", "execute_workflow", "search_tools"}
CALLS = {"time": ("get_current_time", {"timezone": "UTC"}), "plain": ("echo", {"text": "hello"})}
JSON = """\
{
  // what is mine
  "theme": "dark",
  "%s": {
    "time": {"command": %s, "args": %s},
    "git":  {"command": %s, "args": %s}, /* of this folder */
    "plain": {"command": %s, "args": %s},
  },
}
"""


class User:
    """A user's folder and a project, and servers that write down each time that they are started."""

    def __init__(self, root: Path, python_servers: dict[str, str], plain: list[str]) -> None:
        self.home, self.project, self.starts = root / "user", root / "project", root / "starts"
        self.home.mkdir()
        self.project.mkdir()
        self.starts.touch()
        programs = {name: [python_servers[name], "-m", f"mcp_server_{name}"] for name in ("time", "git")}
        self.programs = {name: self._counted(name, words) for name, words in {**programs, "plain": plain}.items()}
        self.environment = {"HOME": str(self.home), "PML_HOME": str(root / "pml"), "PATH": os.environ["PATH"]}

    def _counted(self, name: str, words: list[str]) -> tuple[str, list[str]]:
        script = self.project / f"{name}.sh"
        script.write_text(f'echo {name} >> "{self.starts}"\nexec "{words[0]}" "$@"\n')
        return "sh", [str(script), *words[1:]]

    def entry(self, name: str) -> dict:
        command, args = self.programs[name]
        return {"command": command, "args": args}

    def started(self) -> list[str]:
        return sorted(self.starts.read_text().split())

    def pml(self, *words: str) -> str:
        done = subprocess.run(
            [PML, *words], capture_output=True, check=False, cwd=self.project, encoding="utf-8",
            env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


def of_claude_code(user: User) -> list[Path]:
    """Its files: a server for every folder, one for this folder, and one that the folder brings and is approved."""
    state = {
        "numStartups": 7,
        "mcpServers": {"time": {"type": "stdio", **user.entry("time")}},
        "projects": {
            "/elsewhere": {"mcpServers": {"git": {"command": "other"}}},
            str(user.project): {"mcpServers": {"git": user.entry("git")}, "enabledMcpjsonServers": ["plain"]},
        },
    }
    (user.home / ".claude.json").write_text(json.dumps(state, indent=2, ensure_ascii=False))
    brought = {"plain": user.entry("plain"), "stranger": {"command": "touch", "args": [str(user.project / "bad")]}}
    (user.project / ".mcp.json").write_text(json.dumps({"mcpServers": brought}, indent="\t"))
    return [user.home / ".claude.json", user.project / ".mcp.json"]


def seen_by_claude_code(files: list[Path], project: Path) -> dict[str, dict]:
    state, brought = (json.loads(path.read_text()) for path in files)
    here = state["projects"][str(project)]
    approved = {name: one for name, one in brought["mcpServers"].items() if name in here["enabledMcpjsonServers"]}
    return {**state.get("mcpServers", {}), **approved, **here.get("mcpServers", {})}


def of_json(path: str, key: str):
    def written(user: User) -> list[Path]:
        file = user.home / path
        file.parent.mkdir(parents=True)
        values = [json.dumps(value) for name in ("time", "git", "plain") for value in user.programs[name]]
        file.write_text(JSON % (key, *values))
        return [file]

    def seen(files: list[Path], _project: Path) -> dict[str, dict]:
        text = re.sub(r"^\s*//.*$|/\* .*? \*/", "", files[0].read_text(), flags=re.MULTILINE)
        return json.loads(re.sub(r",(\s*[}\]])", r"\1", text))[key]

    return written, seen


def of_codex(user: User) -> list[Path]:
    tables = "".join(
        f"# {name}\n[mcp_servers.{name}]\ncommand = {json.dumps(user.programs[name][0])}\n"
        f"args = [\n  {', '.join(map(json.dumps, user.programs[name][1]))},\n]\n\n"
        for name in user.programs
    )
    file = user.home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(f'model = "a-model"   # best\n\n{tables}[tui]\ntheme = "dark"\n')
    return [file]


def seen_by_codex(files: list[Path], _project: Path) -> dict[str, dict]:
    return tomllib.loads(files[0].read_text()).get("mcp_servers", {})


CLIENTS = {
    "claude-code": (of_claude_code, seen_by_claude_code),
    "cursor": of_json(".cursor/mcp.json", "mcpServers"),
    "vscode": of_json(".config/Code/User/mcp.json", "servers"),
    "windsurf": of_json(".codeium/windsurf/mcp_config.json", "mcpServers"),
    "gemini-cli": of_json(".gemini/settings.json", "mcpServers"),
    "codex": (of_codex, seen_by_codex),
}


@pytest.mark.skipif(sys.platform != "linux", reason="the clients' folders are those of Linux")
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_connected_client_sees_pml_alone_and_each_server_runs_once(site, python_servers, client):
    user = User(site.folder, python_servers, site.plain())
    write, seen = CLIENTS[client]
    files = write(user)
    before = [path.read_bytes() for path in files]
    assert set(seen(files, user.project)) == set(user.programs)

    user.pml("import", "--from", client)
    told = user.pml("connect", client)
    for name in user.programs:
        assert re.search(rf'^-.*["\[.]{name}\b', told, re.MULTILINE), told
    assert list(seen(files, user.project)) == ["pml"]
    async with AsyncExitStack() as stack:
        for name, entry in seen(files, user.project).items():
            parameters = StdioServerParameters(
                command=entry["command"], args=entry["args"], env=user.environment, cwd=user.home
            )
            with (site.folder / f"{name}.log").open("w") as log:
                connected = await stack.enter_async_context(Client(stdio_client(parameters, errlog=log), mode="legacy"))
            assert {tool.name for tool in (await connected.list_tools()).tools} == META_TOOLS
            for server, (tool, arguments) in CALLS.items():
                call = {"name": f"{server}:{tool}", "arguments": arguments}
                result = await connected.call_tool("call_tool", call)
                assert not result.is_error, result
    assert user.started() == sorted(user.programs)
    assert not (user.project / "bad").exists()

    user.pml("disconnect", client)
    assert [path.read_bytes() for path in files] == before


async def test_what_the_client_writes_meanwhile_stays(site, python_servers):
    user = User(site.folder, python_servers, site.plain())
    files = of_claude_code(user)
    before = [path.read_text() for path in files]
    user.pml("import", "--from", "claude-code")
    user.pml("connect", "claude-code")
    state = json.loads(files[0].read_text())
    state["numStartups"] = 8
    state["projects"]["/new"] = {"history": ["x"]}
    files[0].write_text(json.dumps(state, indent=2, ensure_ascii=False))
    user.pml("disconnect", "claude-code")
    expected = json.loads(before[0])
    expected["numStartups"] = 8
    expected["projects"]["/new"] = {"history": ["x"]}
    assert files[0].read_text() == json.dumps(expected, indent=2, ensure_ascii=False)
    assert files[1].read_text() == before[1]


@pytest.fixture
def old(tmp_path):
    """The address of a server that speaks HTTP with SSE and nothing newer."""
    run = f"import sys; sys.path.insert(0, {str(SERVERS)!r}); import typed; typed.server.run('sse', port=0)"
    log = tmp_path / "old.log"
    with log.open("w") as file:
        process = subprocess.Popen([sys.executable, "-c", run], cwd=SERVERS, stdout=file, stderr=file)
    patience = time.monotonic() + STARTED_S
    while (running := re.search(r"Uvicorn running on (\S+)", log.read_text())) is None:
        assert time.monotonic() < patience, log.read_text()
        time.sleep(0.1)
    yield f"{running[1]}/sse"
    process.terminate()
    process.wait(STARTED_S)


async def test_a_server_that_speaks_http_with_sse_is_imported_as_one(site, python_servers, old):
    user = User(site.folder, python_servers, site.plain())
    (user.home / ".claude.json").write_text(json.dumps({"mcpServers": {"old": {"type": "sse", "url": old}}}))
    user.pml("import", "--from", "claude-code")
    user.pml("connect", "claude-code")
    entry = json.loads((user.home / ".claude.json").read_text())["mcpServers"]["pml"]
    parameters = StdioServerParameters(command=entry["command"], args=entry["args"], env=user.environment)
    with (site.folder / "pml.log").open("w") as log:
        async with Client(stdio_client(parameters, errlog=log), mode="legacy") as client:
            result = await client.call_tool("call_tool", {"name": "old:add", "arguments": {"a": 20, "b": 22}})
    assert not result.is_error, result
    assert "42" in site.text_of(result)
