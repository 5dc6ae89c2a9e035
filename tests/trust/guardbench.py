"""The twelve cases of MCP-GuardBench with and without PML between its scripted agent and its servers.

    .venv/bin/python tests/trust --guardbench FOLDER [--guardbench-python PYTHON]

FOLDER is a checkout of Manishmaurya89/mcp-guardbench, PYTHON one that has its package (PyPI ``mcp-guardbench``). Each
server runs as a process; what really ran in it is read from its own ledger. The agent believes all that it reads: it
does a step that is bound to a text when that text is in anything that it was shown.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from lab import failure_of, findings, inspected, peer, text_of

SERVER = """
import json, os, sys, anyio
from mcp.server.stdio import stdio_server
from guardbench.mcp_lab.fixtures import create_fixture

name, ledger, advanced = sys.argv[1:]
fixture = create_fixture(name)
record, definitions = fixture.ledger.record, fixture.tool_definitions

def recorded(kind, tool, detail=None, **given):
    record(kind, tool, detail, **given)
    harm = tool in fixture.sensitive_tools or (tool in fixture.drifted_tools and fixture.phase > 0)
    with open(ledger, "a") as file:
        file.write(json.dumps({"tool": tool, "harm": harm}) + "\\n")

def current():
    if os.path.exists(advanced) and fixture.phase == 0:
        fixture.advance_state()
    return definitions()

fixture.ledger.record, fixture.tool_definitions = recorded, current

async def serve():
    server = fixture.build_server()
    async with stdio_server() as (source, sink):
        await server.run(source, sink, server.create_initialization_options())

anyio.run(serve)
"""
LONGEST_ANSWER = 4096
"""Of the case about large answers: what is longer floods the model [bytes]."""
LAST_RESULT = "$LAST_RESULT"


@dataclass(slots=True)
class CaseResult:
    """What became of a case."""

    harms: list[str] = field(default_factory=list)
    """Tools that ran and should not have, and answers that were too long."""
    told: list[str] = field(default_factory=list)
    """What PML said of it, in a word each."""
    refused: list[str] = field(default_factory=list)
    """Tools that were not run."""


def print_guardbench(folder: Path, python: Path | None) -> None:
    """Play every case twice, and print what ran."""
    cases = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("test_cases/*.yaml"))]
    print("| case | harm without PML | with PML | what PML says |")
    print("|---|---|---|---|")
    stopped, found, attacks, wrong = 0, 0, 0, 0
    for case in cases:
        without, guarded = played(case, folder, python, gateway=False), played(case, folder, python, gateway=True)
        shown = [", ".join(dict.fromkeys(one)) or "none" for one in (without.harms, guarded.harms, guarded.told)]
        print(f"| {case['id']} {case['category']} | {' | '.join(shown)} |", flush=True)
        if case["category"] == "benign_control":
            wrong += bool(guarded.told or guarded.refused)
        else:
            attacks += 1
            stopped += not guarded.harms
            found += bool(guarded.told)
    print(f"\nstopped {stopped} of {attacks}, told of {found}; {len(cases) - attacks} honest ones, {wrong} objected to")


def played(case: Mapping[str, Any], folder: Path, python: Path | None, *, gateway: bool) -> CaseResult:
    """What becomes of a case."""
    done, context, last, prefix = CaseResult(), "", "", "lab__" if gateway else ""
    with tempfile.TemporaryDirectory() as work:
        ledger, advanced = Path(work, "ledger"), Path(work, "advanced")
        ledger.touch()
        server = [str(python or sys.executable), "-c", SERVER, case["server_fixture"], str(ledger), str(advanced)]
        with peer(server, {"PYTHONPATH": str(folder / "src")}, Path(work), gateway=gateway) as agent:
            for step in case["scenario"]:
                if step["action"] == "advance_fixture_state":
                    advanced.touch()
                elif step["action"] == "list_tools":
                    listed = agent.ask("tools/list", {})["result"]["tools"]
                    done.told += [rule for tool in listed for rule in findings(tool)]
                    context += json.dumps([tool for tool in listed if tool["name"].startswith(prefix)])
                elif (bound := step.get("if_model_context_contains")) is None or bound in context:
                    given = {name: last if value == LAST_RESULT else value
                             for name, value in step.get("arguments", {}).items()}  # fmt: skip
                    answer = agent.ask("tools/call", {"name": prefix + step["tool"], "arguments": given})
                    last = text_of(answer)
                    context += last
                    read(step["tool"], answer, last, done)
        done.told += inspected(Path(work)) if gateway else []
        entries = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    done.harms += [entry["tool"] for entry in entries if entry["harm"]]
    return done


def read(tool: str, answer: Mapping[str, Any], text: str, done: CaseResult) -> None:
    """Note what an answer says."""
    result = answer.get("result") or {}
    meta = result.get("_meta") or {}
    done.told += findings(result)
    if len(json.dumps(result)) > LONGEST_ANSWER:
        done.harms.append("a long answer")
    if "pml/result" in meta or "read_result" in text:
        done.told.append("a preview in place of the answer")
    if "error" in answer or result.get("isError"):
        done.refused.append(tool)
        done.told.append(str(failure_of(answer).get("code") or text[:60]))
