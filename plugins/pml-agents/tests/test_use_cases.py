"""The guide's examples and the use cases of agents, with the tools that look at what they did."""

from __future__ import annotations

import asyncio
import re
import sys
import tomllib
from pathlib import Path

import pytest
from agents_kit import chat, environment, gateway, happens, lives, pids, worker

from pml_agents.settings import Agent, Fields
from pml_execution_tools import plugin as execution_tools
from pml_store_sqlite import SqliteStore

pytestmark = pytest.mark.anyio
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "agents.md"
PLUGINS = {("hooks", "execution_tools"): execution_tools, ("store", "sqlite"): SqliteStore}


def office(agents, folder):
    """A gateway with these agents, its store on disk, and a client of it."""
    return gateway(agents, plugins=PLUGINS, tables={"sqlite": {"path": str(folder / "pml.db")}})


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


async def call(client, tool, arguments):
    answer = await client.call(tool, arguments)
    assert not answer.get("isError"), answer
    return answer["structuredContent"]


async def result_of(client, name, id):
    answer = await call(client, "get_execution_result", {"agent_name": name, "execution_id": id})
    return answer["execution"]


async def ended(client, name, ids):
    """Poll until all have ended; what each came to."""
    async with asyncio.timeout(15):
        while True:
            found = [await result_of(client, name, id) for id in ids]
            if all(one["status"] in ("success", "failed") for one in found):
                return found
            await asyncio.sleep(0.01)


def test_the_agents_of_the_guide_are_settings_that_fit():
    tables = [tomllib.loads(text) for text in blocks("toml")]
    agents = {
        name: agent
        for table in tables
        for name, agent in table.get("plugins", {}).get("agents", {}).get("agents", {}).items()
    }
    assert set(agents) == {"researcher", "coder", "summariser", "translator"}
    for options in agents.values():
        paths = Fields(**options.pop("fields", {}))
        Agent(**{k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}, fields=paths)


async def test_uc1_a_task_is_given_away_and_its_result_fetched(tmp_path):
    agents = {"researcher": worker("stream", parser="stream-json")}
    async with office(agents, tmp_path) as (_, client):
        told, _ = await chat(client, "researcher", "find papers", parallel=True, **{"async": True})
        (found,) = await ended(client, "researcher", [told["execution_id"]])
        asked = {"agent_name": "researcher", "execution_id": told["execution_id"], "include_transcript": True}
        whole = (await call(client, "get_execution_result", asked))["execution"]
    assert (found["status"], found["message"], found["response"]) == ("success", "find papers", "Found 3 papers.")
    assert (found["cost_usd"], found["context_used"], found["context_max"]) == (0.0125, 125, 200000)
    assert "transcript" not in found
    assert [line["type"] for line in whole["transcript"]][-1] == "result"


async def test_uc3_spending_by_agent_against_a_threshold(tmp_path):
    agents = {"dear": worker("json", parser="json"), "cheap": worker("echo")}
    scope = {}
    exec(blocks("python")[0], scope)
    async with office(agents, tmp_path) as (_, client):
        for _ in range(2):
            await chat(client, "dear")
        await chat(client, "cheap")
        over = await scope["over_budget"](lambda tool, arguments: call(client, tool, arguments), 0.02)
        summary = await call(client, "get_agent_activity_summary", {"hours": 24})
    assert over == {"dear": 0.025}
    assert summary["fleet_summary"]["total_cost_usd"] == 0.025, "what the chats cost is counted once"


async def test_uc4_an_orchestrator_waits_for_all(tmp_path):
    agents = {"w": worker("gate", tmp_path, "{message}", max_parallel=3)}
    async with office(agents, tmp_path) as (_, client):
        told = [(await chat(client, "w", f"n{n}", parallel=True, **{"async": True}))[0] for n in range(3)]
        await happens(lambda: len(list(tmp_path.glob("*.begun"))) == 3)
        (tmp_path / "all.go").touch()
        found = await ended(client, "w", [one["execution_id"] for one in told])
    assert [one["response"] for one in found] == ["n0 is done", "n1 is done", "n2 is done"]


async def summary_of(client, name):
    return (await call(client, "get_agent_activity_summary", {"agent_name": name}))["summary"]


async def busy(client, name):
    async with asyncio.timeout(30):
        while not (now := await summary_of(client, name))["is_busy"]:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.05)
        return now


async def test_the_summary_shows_who_is_busy_and_how_many_wait(tmp_path):
    async with office({"w": worker("gate", tmp_path, "{message}")}, tmp_path) as (_, client):
        told = [(await chat(client, "w", f"n{n}", **{"async": True}))[0] for n in range(3)]
        await happens(lambda: list(tmp_path.glob("*.begun")))
        now = await busy(client, "w")
        (tmp_path / "all.go").touch()
        await ended(client, "w", [one["execution_id"] for one in told])
        later = await summary_of(client, "w")
    assert (now["is_busy"], now["queue_length"], now["running"]) == (True, 2, 1)
    assert (later["is_busy"], later["queue_length"], later["successful"]) == (False, 0, 3)


async def test_two_gateways_on_one_store_share_one_queue(tmp_path):
    agents = {"w": worker("gate", tmp_path, "{message}")}
    async with office(agents, tmp_path) as (_, mine), office(agents, tmp_path) as (_, theirs):
        first = asyncio.create_task(chat(mine, "w", "one"))
        await happens((tmp_path / "one.begun").exists)
        second, _ = await chat(theirs, "w", "two", **{"async": True})
        async with asyncio.timeout(30):
            while (now := await summary_of(mine, "w"))["queue_length"] != 1:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.05)
        assert now["is_busy"]
        assert not (tmp_path / "two.begun").exists()
        (tmp_path / "all.go").touch()
        await first
        (found,) = await ended(mine, "w", [second["execution_id"]])
    assert found["response"] == "two is done"
    times = [int((tmp_path / name).read_text()) for name in ("one.begun", "one.ended", "two.begun", "two.ended")]
    assert times == sorted(times)


async def test_what_another_gateway_runs_can_be_cancelled(tmp_path, monkeypatch):
    from pml_background import gateway_process as background

    monkeypatch.setattr(background, "BEAT_S", 0.1)
    agents = {"w": worker("gate", tmp_path, "{message}")}
    async with office(agents, tmp_path) as (_, mine), office(agents, tmp_path) as (_, theirs):
        told, _ = await chat(mine, "w", "one", **{"async": True})
        await happens((tmp_path / "one.begun").exists)
        done = await call(theirs, "cancel_execution", {"execution_id": told["execution_id"]})
        (found,) = await ended(theirs, "w", [told["execution_id"]])
    assert done["cancelled"] is True
    assert found["status"] == "failed"
    assert not (tmp_path / "one.ended").exists()


async def test_after_a_kill_nothing_runs_on_and_the_next_gateway_says_what_happened(tmp_path):
    script = str(Path(__file__).with_name("begun_gateway.py"))
    env = {**environment(), "PYTHONPATH": str(Path(__file__).parent)}
    killed = await asyncio.create_subprocess_exec(
        sys.executable, script, str(tmp_path), stdout=asyncio.subprocess.PIPE, env=env
    )
    id = (await killed.stdout.readline()).decode().strip()
    processes = await happens(lambda: pids(tmp_path / "pids"))
    killed.kill()
    await killed.wait()
    killed._transport.close()
    await happens(lambda: not any(lives(process) for process in processes.values()))
    async with office({"w": worker("echo")}, tmp_path) as (_, client):
        (found,) = await ended(client, "w", [id])
    assert (found["status"], found["message"]) == ("failed", "never to end")
    assert "The gateway went down" in found["error"]
