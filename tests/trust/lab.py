"""A server that is attacked or attacks, as a process, with PML in front of it or without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CONFIG = """
[gateway]
tools_exposure = "full_proxy"

[servers.lab]
command = {command}
args = {args}
env = {env}
on_change = "hold"
words = "strangers"
relist_s = 0
{more}

[plugins.inspection]
definitions = "quarantine"

[plugins.approvals]
effects = "writes"
scope = "everywhere"

[plugins.results]
budget_tokens = 1000
unbounded_modes = []

[plugins.flows]
matching = true
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}


class Peer:
    """A process that speaks MCP on its standard input and output."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process, self._asked = process, 0
        self.ask("initialize", HELLO)

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer, with ``result`` or ``error``."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asked += 1
        message = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._asked and "method" not in answer:
                return answer
        raise RuntimeError("the process has ended")


@contextmanager
def peer(
    command: Sequence[str], env: Mapping[str, str], work: Path, *, gateway: bool, config: str = CONFIG, more: str = ""
) -> Iterator[Peer]:
    """The server itself, or a gateway in front of it; ``more`` are lines of its section in ``config``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    run, environment = command, {**kept, **env}
    if gateway:
        table = "{" + ", ".join(f"{name} = {json.dumps(value)}" for name, value in env.items()) + "}"
        program, *args = command
        filled = config.format(command=json.dumps(program), args=json.dumps(args), env=table, more=more)
        (work / "pml.toml").write_text(filled, encoding="utf-8")
        run, environment = pml(work, "serve"), {**kept, "PML_HOME": str(work / "home")}
    with subprocess.Popen(
        run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd=work
    ) as process:
        yield Peer(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


def pml(work: Path, *words: str) -> Sequence[str]:
    """A command of PML's with the configuration of :func:`peer`."""
    return [sys.executable, "-m", "pml_core", *words, "--config", str(work / "pml.toml")]


def ran(work: Path, *words: str) -> str:
    """What such a command prints."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    done = subprocess.run(
        pml(work, *words), env={**env, "PML_HOME": str(work / "home")}, capture_output=True, text=True, check=False
    )
    return done.stdout


def inspected(work: Path) -> Sequence[str]:
    """Rules that ``pml inspect`` names."""
    return sorted({finding["rule"] for finding in json.loads(ran(work, "inspect", "--json"))["findings"]})


def findings(of: Mapping[str, Any]) -> Sequence[str]:
    """Rules that the inspection names of a definition or a result."""
    mark = (of.get("_meta") or {}).get("pml/inspection") or {}
    return [str(one["rule"]) for one in mark.get("findings", [])]


def failure_of(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """What PML says of a call that it did not make; empty for one that it made."""
    meta = (answer.get("result") or {}).get("_meta") or {}
    found: Mapping[str, Any] = meta.get("pml/failure") or (answer.get("error") or {}).get("data") or {}
    return found if isinstance(found, Mapping) else {}


def text_of(answer: Mapping[str, Any]) -> str:
    """What a model reads of it."""
    if "error" in answer:
        return str(answer["error"].get("message"))
    blocks = [*answer["result"].get("content", []), *answer["result"].get("contents", [])]
    return "\n".join(block.get("text", "") for block in blocks)
