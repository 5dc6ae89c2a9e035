"""GuardBench's servers, as processes behind a gateway: what clients are shown of their tools and results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from material import Case

POISONED = frozenset({"poisoned_description", "poisoned_schema", "multilingual_poisoning", "response_injection"})
"""Whose attack is in words. The others are about definitions that change, rights, flows of data and large results,
which are no business of a search for words, or honest."""
ARGUMENTS: dict[str, dict[str, Any]] = {"fetch_report": {"report_id": "R-1"}}


class Gateway:
    """``pml serve`` over stdio."""

    def __init__(self, folder: Path, server: str, command: list[str]) -> None:
        config = [
            "[gateway]",
            'tools_exposure = "full_proxy"',
            f"[servers.{server}]",
            f"command = {json.dumps(command[0])}",
            f"args = {json.dumps(command[1:])}",
            f"env = {{ PYTHONPATH = {json.dumps(str(folder))} }}",
        ]
        self.home = Path(tempfile.mkdtemp())
        (self.home / "pml.toml").write_text("\n".join(config), encoding="utf-8")
        env = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pml_core", "serve", "--config", str(self.home / "pml.toml")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**env, "PML_HOME": str(self.home)},
        )
        self._asked = 0
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask("initialize", hello)

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result, or an empty one where there is an error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asked += 1
        message = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._asked and "method" not in answer:
                return dict(answer.get("result") or {})
        raise RuntimeError("the gateway has ended")

    def close(self) -> None:
        """End it by leaving."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def cases_of_guardbench(folder: Path, python: Path | None) -> list[Case]:
    """One case for each server."""
    root = next(path.parents[2] for path in folder.rglob("guardbench/mcp_lab/server_runner.py"))
    made = []
    for path in sorted((root / "guardbench/mcp_lab/servers").glob("*_server.py")):
        name = path.stem
        command = [str(python or sys.executable), "-m", "guardbench.mcp_lab.server_runner", "--fixture", name]
        gateway = Gateway(root, "lab", command)
        try:
            hits = marks_of(gateway)
        finally:
            gateway.close()
        attack = name.removesuffix("_server") in POISONED
        made.append(Case(name, path.name, attack, bool(hits), "; ".join(hits)))
    return made


def marks_of(gateway: Gateway) -> list[str]:
    """What tools, and the results of those whose arguments are known, are marked with."""
    hits = []
    tools = [one for one in gateway.ask("tools/list", {}).get("tools", []) if one["name"].startswith("lab__")]
    if not tools:
        raise RuntimeError("a server lists nothing: its Python lacks something")
    for tool in tools:
        hits += [f"{tool['name']}: {rule}" for rule in rules(tool)]
        own = tool["name"].removeprefix("lab__")
        if own in ARGUMENTS or not tool["inputSchema"].get("required"):
            result = gateway.ask("tools/call", {"name": tool["name"], "arguments": ARGUMENTS.get(own, {})})
            hits += [f"result of {tool['name']}: {rule}" for rule in rules(result)]
    return hits


def rules(marked: dict[str, Any]) -> list[str]:
    """Of a mark."""
    mark = (marked.get("_meta") or {}).get("pml/inspection") or {}
    return [one["rule"] for one in mark.get("findings", [])]
