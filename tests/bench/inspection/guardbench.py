"""GuardBench's servers, as processes behind a gateway: what clients are shown of their tools and results."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from material import Case

sys.path.insert(0, str(Path(__file__).parents[2] / "trust"))
from lab import Peer, findings, peer  # of the other measurements with servers of others

POISONED = frozenset({"poisoned_description", "poisoned_schema", "multilingual_poisoning", "response_injection"})
"""Whose attack is in words. The others are about definitions that change, rights, flows of data and large results,
which are no business of a search for words, or honest."""
CONFIG = """
[gateway]
tools_exposure = "full_proxy"

[servers.lab]
command = {command}
args = {args}
env = {env}
"""
ARGUMENTS: dict[str, dict[str, Any]] = {"fetch_report": {"report_id": "R-1"}}


def cases_of_guardbench(folder: Path, python: Path | None) -> list[Case]:
    """One case for each server."""
    root = next(path.parents[2] for path in folder.rglob("guardbench/mcp_lab/server_runner.py"))
    made = []
    for path in sorted((root / "guardbench/mcp_lab/servers").glob("*_server.py")):
        name = path.stem
        command = [str(python or sys.executable), "-m", "guardbench.mcp_lab.server_runner", "--fixture", name]
        with tempfile.TemporaryDirectory() as work:
            of_python = {"PYTHONPATH": str(root)}
            with peer(command, of_python, Path(work), gateway=True, config=CONFIG) as gateway:
                hits = marks_of(gateway)
        attack = name.removesuffix("_server") in POISONED
        made.append(Case(name, path.name, attack, bool(hits), "; ".join(hits)))
    return made


def marks_of(gateway: Peer) -> list[str]:
    """What tools, and the results of those whose arguments are known, are marked with."""
    hits = []
    tools = [one for one in gateway.ask("tools/list", {})["result"]["tools"] if one["name"].startswith("lab__")]
    if not tools:
        raise RuntimeError("a server lists nothing: its Python lacks something")
    for tool in tools:
        hits += [f"{tool['name']}: {rule}" for rule in findings(tool)]
        own = tool["name"].removeprefix("lab__")
        if own in ARGUMENTS or not tool["inputSchema"].get("required"):
            answer = gateway.ask("tools/call", {"name": tool["name"], "arguments": ARGUMENTS.get(own, {})})
            result = answer.get("result", {})
            hits += [f"result of {tool['name']}: {rule}" for rule in findings(result)]
    return hits
