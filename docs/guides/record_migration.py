"""Record the way from direct connections to ``meta_only`` as a terminal session (asciicast v2).

    python docs/guides/record_migration.py docs/guides/migration.cast
    python docs/guides/record_migration.py --tables docs/guides

Runs the real commands in a folder of its own, against 687 made-up tools of 23 servers, with an agent that does some
work in each phase. Nothing in the recording is made up but the typing; pauses are shortened. Play it with any player of
asciicasts, such as ``asciinema play docs/guides/migration.cast``. With ``--tables`` the tables of the guides that are
marked ``<!-- measured: NAME -->`` are measured anew.
"""  # noqa: INP001 - a script

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pml_testing.catalogs import large_catalog

WIDTH, HEIGHT = 110, 34
TYPING_S, READING_S, LONGEST_PAUSE_S = 0.04, 2.5, 1.0
TIMEOUT_S = 120
INTENT = "create a calendar event and invite an attendee"
SERVER = """
import json, sys
tools = json.load(open(sys.argv[1], encoding="utf-8"))
for line in sys.stdin:
    said = json.loads(line)
    method, params = said.get("method"), said.get("params") or {}
    if "id" not in said:
        continue
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "made-up", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": tools}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": params["name"] + ": done"}]}
    elif method == "ping":
        result = {}
    else:
        answer = {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": said["id"], **answer}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
"""
PHASES: Sequence[tuple[str, str, str]] = (
    ("Weeks 1 and 2: everything as before, through PML.", "migration", "full_proxy"),
    ("Weeks 3 and 4: the meta-tools, and up to 50 tools that fit.", "hybrid_permissive", "hybrid"),
    ("Month 2: fewer tools, only those that clearly fit.", "balanced", "hybrid"),
    ("Month 3 and later: the meta-tools alone.", "advanced", "meta_only"),
)
"""What is said, the preset by the name that people use, its mode."""


@dataclass
class Site:
    """A folder with 23 servers and a gateway, and a home of its own."""

    folder: Path

    def make(self) -> None:
        """Write the servers, and the configuration of a client that has them."""
        (self.folder / "server.py").write_text(SERVER, encoding="utf-8")
        servers: dict[str, Any] = {}
        for name, tools in large_catalog().items():
            (self.folder / f"{name}.json").write_text(json.dumps(tools), encoding="utf-8")
            arguments = [str(self.folder / "server.py"), str(self.folder / f"{name}.json")]
            servers[name] = {"command": sys.executable, "args": ["-S", *arguments]}
        (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")

    @property
    def environment(self) -> Mapping[str, str]:
        """Of every command."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
        home = {"HOME": str(self.folder), "PML_HOME": str(self.folder / ".pml")}
        scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {**kept, **home, "PATH": scripts, "COLUMNS": str(WIDTH), "NO_COLOR": "1"}

    def run(self, command: str) -> str:
        """What a command prints.

        Raises:
            RuntimeError: It failed.
        """
        done = subprocess.run(  # noqa: S602 - commands of this file
            command,
            shell=True,
            capture_output=True,
            check=False,
            cwd=self.folder,
            encoding="utf-8",
            env=self.environment,
            timeout=TIMEOUT_S,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command} failed ({done.returncode}): {done.stdout}{done.stderr}")
        return done.stdout

    def shown(self, text: str) -> str:
        """``text`` without the name of the folder."""
        for name, short in ((str(self.folder.resolve()), "~"), (str(self.folder), "~"), (sys.executable, "python3")):
            text = text.replace(name, short)
        return text


class Agent:
    """A client of ``pml serve`` that does a little work."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process, self._id = process, 0

    @classmethod
    @contextlib.contextmanager
    def of(cls, site: Site) -> Iterator[Agent]:
        """An agent with a gateway of its own."""
        process = subprocess.Popen(
            ["pml", "serve"],  # noqa: S607 - the one beside this interpreter
            cwd=site.folder,
            encoding="utf-8",
            env=site.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        with process:
            agent = cls(process)
            about = {"name": "agent", "version": "1"}
            agent.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about})
            yield agent
            process.communicate(timeout=TIMEOUT_S)

    def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """The result of one request."""
        self._id += 1
        request = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the gateway has no pipes")
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        for line in stdout:
            said = json.loads(line)
            if said.get("id") == self._id and "method" not in said:
                return said["result"]
        raise RuntimeError(f"the gateway ended before it answered {method}")

    def listed(self) -> list[dict[str, Any]]:
        """The tools that the agent is shown for :data:`INTENT`."""
        tools: list[dict[str, Any]] = self.ask("tools/list", {"_meta": {"pml/intent": INTENT}})["tools"]
        return tools

    def work(self, mode: str) -> None:
        """Calls as they are made in a mode: directly, or looked for and planned."""
        tools = [tool["name"] for tool in self.listed()]
        planned: tuple[str, dict[str, Any]] = ("execute_workflow", {"workflow": {"tasks": plan()}})
        call: list[tuple[str, dict[str, Any]]]
        if mode == "meta_only":
            call = [("search_tools", {"query": INTENT}), planned]
        elif mode == "hybrid":
            call = [("search_tools", {"query": INTENT}), *direct(tools), planned]
        else:
            call = direct(["calendar__create_event", "calendar__create_attendee", "calendar__list_event"] * 2)
        for name, arguments in call:
            self.ask("tools/call", {"name": name, "arguments": arguments})


def direct(names: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Calls of tools of the calendar."""
    return [(name, {f"{name.rpartition('_')[2]}_id": "1"}) for name in names if name.startswith("calendar__")][:6]


def plan() -> list[dict[str, Any]]:
    """A workflow of two calls, the second of which needs the first."""
    return [
        {"id": "event", "tool": "calendar:create_event", "arguments": {"event_id": "1"}},
        {"id": "guest", "tool": "calendar:create_attendee", "arguments": {"attendee_id": "{{event}}"}},
    ]


class Cast:
    """A recording: what appears, and when [s]."""

    def __init__(self, title: str) -> None:
        header = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": title, "env": {"TERM": "xterm-256color"}}
        self._lines, self._now = [json.dumps(header)], 0.0

    def wait(self, seconds: float) -> None:
        """Nothing happens for a while."""
        self._now += seconds

    def show(self, text: str) -> None:
        """Something appears."""
        self._lines.append(json.dumps([round(self._now, 3), "o", text.replace("\n", "\r\n")], ensure_ascii=False))

    def type(self, text: str) -> None:
        """Somebody types a line."""
        for char in text:
            self.show(char)
            self.wait(TYPING_S)
        self.show("\n")

    def write(self, path: Path) -> None:
        """Write the file."""
        path.write_text("\n".join(self._lines) + "\n", encoding="utf-8")


def say(cast: Cast, text: str) -> None:
    """A remark."""
    cast.show("$ ")
    cast.type(f"# {text}")
    cast.wait(READING_S / 2)


def do(cast: Cast, site: Site, command: str, *, lines: int = 0) -> str:
    """A command with what it prints; only the first ``lines`` lines if not 0."""
    cast.show("$ ")
    cast.type(command)
    began = time.monotonic()
    printed = site.shown(site.run(command))
    cast.wait(min(time.monotonic() - began, LONGEST_PAUSE_S))
    shown = printed.splitlines(keepends=True)
    cast.show("".join(shown[:lines] if lines else shown))
    cast.wait(READING_S)
    return printed


def record(site: Site, cast: Cast) -> None:
    """All four phases."""
    say(cast, "23 servers, connected directly: every tool is in every conversation.")
    do(cast, site, "pml import mcp.json", lines=6)
    do(cast, site, "pml tokens --connect --top 0", lines=10)
    for said, preset, mode in PHASES:
        say(cast, said)
        do(cast, site, f"pml config --preset {preset}")
        with Agent.of(site) as agent:
            agent.work(mode)
            count = len(agent.listed())
        say(cast, f'an agent works for a while; for "{INTENT}" it is shown {count} tools')
    say(cast, "How did it go?")
    do(cast, site, "pml metrics")
    do(cast, site, "pml advise")


def costs(site: Site) -> dict[str, Any]:
    """What ``pml tokens`` says of each mode and preset, by name."""
    site.run("pml import mcp.json")
    said = json.loads(site.run("pml tokens --json --connect --tokenizer estimate"))
    return {mode["name"]: mode for mode in said["modes"]}


def typical(cost: Mapping[str, Any]) -> tuple[float, float]:
    """Tools and tokens, with a hint if that makes a difference."""
    hinted = cost["with_a_hint"]
    return (cost["tools"], cost["tokens"]) if hinted is None else (hinted["tools_mean"], hinted["tokens_mean"])


def tables(found: Mapping[str, Any]) -> dict[str, str]:
    """Markdown by the name in the mark."""
    modes = ["| | tools | tokens | with a hint: tools | tokens | at most |", "|---|---|---|---|---|---|"]
    for name in ("full_proxy", "hybrid_permissive", "hybrid_balanced", "semantic", "meta_only"):
        cost, hinted = found[name], found[name]["with_a_hint"]
        more = ("", "", "")
        if hinted is not None:
            more = (f"{hinted['tools_mean']:.0f}", f"{hinted['tokens_mean']:,.0f}", f"{hinted['tokens_most']:,}")
        modes.append(f"| `{name}` | {cost['tools']} | {cost['tokens']:,} | {' | '.join(more)} |")
    all_tokens = found["full_proxy"]["tokens"]
    phases = ["| phase | preset | tools | tokens | of 100,000 | of phase 1 |", "|---|---|---|---|---|---|"]
    for number, preset in enumerate(("full_proxy", "hybrid_permissive", "hybrid_balanced", "meta_only"), 1):
        tools, tokens = typical(found[preset])
        shares = f"{tokens / 1000:.1f} % | {100 * tokens / all_tokens:.1f} %"
        phases.append(f"| {number} | `{preset}` | {tools:.0f} | {tokens:,.0f} | {shares} |")
    return {"modes": "\n".join(modes), "phases": "\n".join(phases)}


def fill(folder: Path, measured: Mapping[str, str]) -> None:
    """Put tables into the guides in ``folder``, between their marks."""
    for path in folder.glob("*.md"):
        text = path.read_text(encoding="utf-8")
        for name, table in measured.items():
            begin, end = f"<!-- measured: {name} -->\n", "<!-- end -->"
            before, mark, rest = text.partition(begin)
            _, closed, after = rest.partition(end)
            if mark and closed:
                text = f"{before}{begin}\n{table}\n\n{end}{after}"
        path.write_text(text, encoding="utf-8")


def main() -> int:
    """Record, or measure; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, nargs="?", default=Path(__file__).with_name("migration.cast"))
    parser.add_argument("--tables", type=Path, metavar="FOLDER", help="measure the tables of the guides in this folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pml-recording-") as folder:
        site = Site(Path(folder))
        site.make()
        if arguments.tables is not None:
            fill(arguments.tables, tables(costs(site)))
            return 0
        cast = Cast("From direct connections to meta_only")
        record(site, cast)
        cast.write(arguments.target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
