from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from dataclasses import dataclass

import pytest
from agents_kit import WORKER, environment

from pml_core.cli import main

CONFIGURATION = """
[plugins.agents.agents.echo]
description = "Says it again."
command = ["{python}", "{worker}", "echo"]

[plugins.agents.agents.fails]
command = ["{python}", "{worker}", "fail"]

[plugins.agents.agents.paid]
command = ["{python}", "{worker}", "json"]
parser = "json"

[plugins.agents.agents.far]
tool = "brain:ask"
"""


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def pml(tmp_path, monkeypatch, capsys):
    """The command, in this process."""
    for name in set(os.environ) - set(environment()):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    text = CONFIGURATION.format(python=sys.executable, worker=WORKER)
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.toml").write_text(text)

    def run(*words, given=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(given))
        status = main(["agents", *words])
        return Done(status, *capsys.readouterr())

    return run


def test_agents_are_listed(pml):
    done = pml("list", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["agents"]}
    assert set(rows) == {"echo", "fails", "far", "paid"}
    assert rows["echo"] == {
        "name": "echo",
        "kind": "command",
        "what": sys.executable,
        "description": "Says it again.",
        "running": 0,
        "waiting": 0,
    }
    assert rows["far"]["what"] == "brain:ask"
    assert "Says it" in pml("list").stdout


def test_an_agent_is_asked_and_its_run_recorded(pml):
    done = pml("chat", "echo", "hello", "--context", "Monday")
    assert (done.returncode, done.stdout) == (0, "you said: hello\n\nMonday\n"), done.stderr
    paid = pml("chat", "paid", "-", "--json", given="from standard input")
    told = json.loads(paid.stdout)
    assert (told["agent_name"], told["status"], told["response"]) == ("paid", "success", "Found 3 papers.")
    assert (told["cost_usd"], told["context_max"], told["error"]) == (0.0125, 200000, None)


def test_failures_and_mistakes_are_said_without_a_traceback(pml):
    failed = pml("chat", "fails", "hello")
    assert failed.returncode == 1
    assert "exited with code 3" in failed.stderr
    unknown = pml("chat", "nobody", "hello")
    assert unknown.returncode == 2
    assert "configured: echo, fails, far, paid" in unknown.stderr
    far = pml("chat", "far", "hello")
    assert far.returncode == 2
    assert "--connect" in far.stderr
    assert "Traceback" not in failed.stderr + unknown.stderr + far.stderr


def test_an_empty_queue_says_so(pml):
    assert "No agent runs" in pml("queue").stdout
    assert json.loads(pml("queue", "--json").stdout) == {"queue": []}


@pytest.mark.anyio
async def test_the_queue_shows_who_runs_and_who_waits(capsys):
    import argparse

    from pml_agents import plugin
    from pml_agents.run_queue import RunQueue
    from pml_agents.settings import Agent
    from pml_core.plugins.nulls import MemoryStore
    from pml_testing.fakes import FakeServices

    services = FakeServices("agents", store=MemoryStore())
    turns, agent = RunQueue(services), Agent(command=("x",))
    parser = argparse.ArgumentParser()
    plugin.pml_commands(parser.add_subparsers())

    async def show(*words):
        arguments = parser.parse_args(["agents", "queue", *words])
        assert await arguments.run_with(arguments, services) == 0
        return capsys.readouterr().out

    waits = asyncio.Event()

    async def second():
        async with turns.turn("w", agent, id="2", parallel=False, waits=lambda _: waits.set()):
            pass

    async with turns.turn("w", agent, id="1", parallel=False, waits=lambda _: None):
        waiting = asyncio.create_task(second())
        await waits.wait()
        rows = json.loads(await show("--json"))["queue"]
        table = await show()
    await waiting
    await services.stop()
    assert [(row["execution_id"], row["state"]) for row in rows] == [("1", "running"), ("2", "waiting")]
    assert "waiting" in table
