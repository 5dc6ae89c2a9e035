"""No input decides how long the gateway stands still: its event loop is watched while it is attacked."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
import time
from pathlib import Path

import pytest

from pml_testing import hostile_schemas

from .raw_gateway import Site
from .test_hostile_definitions import SERVER

MOST_MS = 50.0
"""CPU time of one turn [ms]."""
MOST_BYTES = 300 * 1024 * 1024
"""Memory above what it has when idle, and above what is sent."""
WATCH = Path(__file__).with_name("loop_watch.py")
MIB = 1024 * 1024
DEEP = {"a": 1}
for _ in range(30):
    DEEP = {"a": DEEP, "p0": DEEP} if len(json.dumps(DEEP)) < 2000 else {"a": DEEP}
ARGUMENTS = [{}, DEEP, {"a": "a" * 5000 + "!"}, {f"p{i}": {"a": i} for i in range(80)}]


def rss_bytes(pid, name="VmRSS"):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


class RecordedGateway:
    """A gateway whose turns are written down."""

    def __init__(self, client, turns):
        self.client, self._turns = client, turns
        self.table = {}

    def attack(self, name, *requests):
        """Send ``requests``; what the gateway's longest turn was meanwhile goes into the table."""
        before = self._turns.stat().st_size
        begin = time.monotonic()
        for method, params in requests:
            self.client.ask(method, **params)
        took_s = time.monotonic() - begin
        turns = [line.split(" ", 2) for line in self._turns.read_text()[before:].splitlines()]
        worst = max(((float(ms), what) for _, ms, what in turns), default=(0.0, ""))
        self.table[name] = (worst[0], took_s, worst[1])

    def told(self):
        rows = sorted(self.table.items(), key=lambda row: -row[1][0])
        return "\n".join(f"{ms:8.1f} ms  {s:6.2f} s  {name}  {what[:120]}" for name, (ms, s, what) in rows)


def workflow(name, arguments, **more):
    tasks = [{"id": "a", "tool": f"bad:{name}", "arguments": arguments},
             {"id": "b", "tool": f"bad:{name}", "arguments": {"a": "{{a.a}}", "p0": "{{a.p0.p0}}"}}]  # fmt: skip
    return "tools/call", {"name": "execute_workflow", "arguments": {"workflow": {"tasks": tasks}, **more}}


def definitions():
    """One tool that is in order, and one for each hostile schema that is JSON."""
    yield {"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object"}}
    for i, make in enumerate(hostile_schemas.HOSTILE.values()):
        schema = make()
        yield {"name": f"t{i}", "description": f"Does {i}.", "inputSchema": schema, "outputSchema": schema}
    yield {"name": "n" * 20 * MIB, "inputSchema": {"type": "object"}}


def as_lines(made):
    for definition in made:
        with contextlib.suppress(RecursionError, ValueError):
            yield json.dumps(definition)


def rehearsed(name, arguments):
    return "tools/call", {"name": name, "arguments": arguments, "_meta": {"pml/dry_run": True}}


def multiplying():
    tasks = [{"id": "x0", "tool": "bad:echo", "arguments": {"x": "y" * 1000}}]
    for i in range(1, 12):
        tasks.append({"id": f"x{i}", "tool": "bad:echo", "arguments": {"x": f"{{{{x{i - 1}}}}}" * 8}})  # noqa: PERF401
    return "tools/call", {"name": "execute_workflow", "arguments": {"workflow": {"tasks": tasks}}}


def attack_all(watched):
    for i, kind in enumerate(hostile_schemas.HOSTILE):
        watched.attack(f"call: {kind}", *[("tools/call", {"name": f"bad__t{i}", "arguments": a}) for a in ARGUMENTS])
        plan = workflow(f"t{i}", ARGUMENTS[1], dry_run=True)
        watched.attack(f"rehearse: {kind}", *[rehearsed(f"bad__t{i}", given) for given in ARGUMENTS], plan)
    found = {"name": "search_tools", "arguments": {"query": "does 7", "detail": "full", "limit": 50}}
    watched.attack("search", ("tools/call", found))
    for language in ("javascript", "python"):
        types = {"tools": ["bad:*"], "language": language, "limit": 50}
        watched.attack(f"types for {language}", ("tools/call", {"name": "describe_code_tools", "arguments": types}))
    long = "word " * 2 * MIB
    watched.attack("10 MiB of query", ("tools/call", {"name": "search_tools", "arguments": {"query": long}}))
    watched.attack("10 MiB of name", ("tools/call", {"name": long, "arguments": {}}))
    watched.attack("10 MiB of intent", ("tools/call", {"name": "execute_workflow", "arguments": {"intent": long}}))
    watched.attack("10 MiB of address", ("resources/read", {"uri": long}))
    watched.attack("10 MiB of cursor", ("tools/list", {"cursor": long}))
    watched.attack("a plan that multiplies results", multiplying())


def attacked(folder):
    """By attack the longest turn; and how much memory the gateway had at most, above what it has when idle."""
    folder.mkdir()
    turns = folder / "turns.txt"
    turns.touch()
    (folder / "bad.py").write_text(SERVER)
    (folder / "tools.lines").write_text("\n".join(as_lines(definitions())))
    (folder / "good.lines").write_text(json.dumps({"name": "hi", "inputSchema": {"type": "object"}}))
    program = [sys.executable, str(folder / "bad.py")]
    # What is imported for the first definition is no input's doing either.
    late = ["-c", f"sleep 1; exec {shlex.join([*program, str(folder / 'tools.lines')])}"]
    command = f'local = ["{WATCH}"]\n[plugins.preflight]\n[servers.bad]\ncommand = "sh"\nargs = {json.dumps(late)}\n'
    command += f"[servers.good]\ncommand = {json.dumps(program[0])}\n"
    command += f"args = {json.dumps([program[1], str(folder / 'good.lines')])}"
    with Site(folder).serving(f"{command}\n", environment={"LOOP_WATCH": str(turns)}) as client:
        watched = RecordedGateway(client, turns)
        watched.attack("list every hostile schema, and a name of 20 MiB", ("tools/list", {}))
        idle = rss_bytes(client.process.pid)
        # What is imported for the first call of its kind is no input's doing.
        for method, params in (rehearsed("bad__echo", {}), workflow("echo", {}, dry_run=True), workflow("echo", {})):
            client.ask(method, **params)
        attack_all(watched)
        grown = rss_bytes(client.process.pid, "VmHWM") - idle
        print(f"\n{watched.told()}\nmemory above idle at its highest: {grown / MIB:.0f} MiB")
        return {name: row[0] for name, row in watched.table.items()}, grown


@pytest.mark.attack("No input stops the house", "make the gateway deaf for everybody, by each of these and more")
def test_no_turn_of_the_loop_is_long_whatever_is_sent(tmp_path):
    least: dict[str, float] = {}
    for attempt in range(3):
        table, grown = attacked(tmp_path / str(attempt))
        least = {name: min(ms, least.get(name, ms)) for name, ms in table.items()}
        if max(least.values()) <= MOST_MS:
            break
    assert {name: ms for name, ms in least.items() if ms > MOST_MS} == {}
    assert grown < MOST_BYTES
