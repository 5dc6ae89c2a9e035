from __future__ import annotations

import argparse
import asyncio
import json

import pytest

from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import Session, ToolCall
from pml_limits import housekeeping, plugin
from pml_limits.settings import Rule, Settings
from pml_testing.fakes import FakeRun, FakeServices, outcome
from pml_testing.wrapper import Next

pytestmark = pytest.mark.anyio
RULES = {
    "few": Rule(rate="10/hour", per=("agent",), server="fs"),
    "slots": Rule(concurrency=2, queue_s=3, kind="tool"),
    "money": Rule(daily_usd=2, time_out_s=30),
}


async def pml(services, *words):
    parser = argparse.ArgumentParser()
    plugin.pml_commands(parser.add_subparsers())
    arguments = parser.parse_args(["limits", *words])
    return await arguments.run_with(arguments, services)


async def used(monkeypatch, *, shared, agent="tester"):
    """Services after two calls, of which one is still under way, as another process finds them."""
    monkeypatch.setattr(housekeeping, "TELL_S", 0.01)
    services = FakeServices("limits", store=MemoryStore(), settings=Settings(rules=RULES, shared=shared))
    (wrapper,) = plugin.pml_wrap_executor(services)
    (lifespan,) = plugin.pml_lifespan(services)
    session = Session(key="k", agent=agent)
    await lifespan.__aenter__()

    async def costly(task, run):
        return outcome(task.id, cost_usd=0.5)

    async def looks(task, run):
        if not shared:
            async with asyncio.timeout(60):
                while "concurrency" not in await told_by(services):  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.005)
        await wrapper.budgets.write()
        services.code = await pml(services, "show", *services.words)
        return outcome(task.id)

    async def run(words):
        services.words = words
        await wrapper(ToolCall(id="a", tool="fs:read"), run_of("1", session), costly)
        await wrapper(ToolCall(id="b", tool="fs:read"), run_of("2", session), looks)
        await services.stop()
        await lifespan.__aexit__(None, None, None)
        return services

    return run


async def told_by(services):
    page = await services.store.documents.find("limits.use")
    return {told["what"] for document in page.items for told in document.value["told"]}


def run_of(id, session):
    made = FakeRun(session=session)
    made.id = id
    return made


@pytest.mark.parametrize("shared", [False, True])
async def test_rules_and_use_for_programs(monkeypatch, capsys, shared):
    run = await used(monkeypatch, shared=shared)
    services = await run(["--json"])
    told = json.loads(capsys.readouterr().out)
    assert services.code == 0
    assert told["shared"] is shared
    assert told["rules"]["few"]["rate"] == "10/hour"
    assert told["rules"]["slots"]["queue_s"] == 3
    use = {u["what"]: u for u in told["use"]}
    assert (use["rate"]["used"], use["rate"]["allowed"], use["rate"]["for"]) == (2, 10, {"agent": "tester"})
    assert (use["concurrency"]["used"], use["concurrency"]["allowed"]) == (1, 2)
    assert (use["budget"]["used"], use["budget"]["allowed"]) == (0.5, 2)
    assert (use["rate"]["gateway"] == "") is shared
    assert (await services.store.documents.find("limits.use")).items == []


async def test_tables_for_people_obey_nothing_that_clients_write(monkeypatch, capsys):
    run = await used(monkeypatch, shared=True, agent="\x1b[31m[bold]evil")
    await run([])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "10/hour" in out
    assert "[bold]" in out
    assert "2 at a time" in out


async def test_without_rules_it_says_so(capsys):
    assert await pml(FakeServices("limits", store=MemoryStore()), "show") == 0
    assert "Nothing is limited" in capsys.readouterr().out


async def test_nothing_used_says_so(capsys):
    services = FakeServices("limits", store=MemoryStore(), settings=Settings(rules={"r": Rule(rate="1/hour")}))
    assert await pml(services, "show") == 0
    assert "Nothing of it is used just now" in capsys.readouterr().out


async def test_use_of_a_rule_that_is_gone_is_not_shown(capsys):
    store = MemoryStore()
    old = FakeServices("limits", store=store, settings=Settings(rules={"old": Rule(rate="1/hour")}, shared=True))
    (wrapper,) = plugin.pml_wrap_executor(old)
    await wrapper(ToolCall(id="a", tool="fs:read"), FakeRun(), Next())
    new = FakeServices("limits", store=store, settings=Settings(rules={"new": Rule(rate="5/day")}, shared=True))
    await pml(new, "show", "--json")
    assert json.loads(capsys.readouterr().out)["use"] == []
