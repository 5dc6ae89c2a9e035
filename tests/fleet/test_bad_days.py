"""Days on which a part goes away or stands still: what clients see, and that it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal

import httpx2
import pytest
from balanced import accepting, call, executions, initialize, request_in_session, until, yes

from pml_background.executions import MOST_TRIES

pytestmark = pytest.mark.anyio


def failure(answer):
    """Why a call failed."""
    return answer["result"]["_meta"]["pml/failure"]


async def ended(url, id):
    """What the history says of an execution, once it has ended."""
    async with asyncio.timeout(180):
        while True:
            found = [one for one in await executions(url) if one["id"] == id]
            if found and found[0]["status"] not in ("pending", "running"):
                which = {"agent_name": found[0]["agent_name"], "execution_id": id}
                with contextlib.suppress(httpx2.TransportError):
                    return (await call(url, "get_execution_result", which))["result"]
            await asyncio.sleep(0.2)


async def test_what_a_gateway_keeps_that_stands_still_is_refused_and_goes_on_later(fleet):
    with fleet(2).running() as running:
        first, second = running.gateways
        session = await initialize(first.url, "")
        asked = (await call(first.url, "bank__ask", {"to": "ann"}))["result"]
        await asyncio.sleep(1)  # a session is written within a tenth of a second
        first.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(6)  # longer than one is taken to be well that has just answered
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
        async with httpx2.AsyncClient(timeout=100) as http:
            told = await http.post(second.url, json=message, headers={**accepting(""), "mcp-session-id": session})
        assert (told.status_code, told.headers["retry-after"]) == (503, "1")
        assert "does not answer, and was not asked; try again" in told.text
        refused = await call(second.url, "bank__ask", {"to": "ann"}, **yes(asked, sure=True))
        assert "was not asked; try again" in refused["error"]["message"]
        first.process.send_signal(signal.SIGCONT)
        assert await request_in_session(second.url, session, "") == 200
        answer = await call(second.url, "bank__ask", {"to": "ann"}, **yes(asked, sure=True))
        assert '"accept"' in str(answer), answer
        assert running.payments() == ["asked-ann"]


POISON = """
[plugins.agents.agents.taster]
tool = "bank:poison"
argument = "to"

[plugins.agents.agents.doomed]
tool = "bank:pay"
argument = "to"
"""
DOOM = """
import os, signal
from pml_hookspecs import Phase, ToolCall, Wrapper, hookimpl

class Doom:
    phase = Phase.SUBSTITUTE

    def __call__(self, task, run, call_next):
        if isinstance(task, ToolCall) and task.arguments.get("message") == "doom" and not task.arguments.get("async"):
            with open("{folder}/doomed", "a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return call_next(task, run)

@hookimpl
def pml_wrap_executor(services):
    return [Doom()]
"""
GIVEN_UP_AFTER = 2


async def kept_up(running, deaths):
    """Start again, all the while, what has died."""
    while True:
        for one in running.gateways:
            if one.process is not None and one.process.poll() is not None:
                deaths.append(one.name)
                one.begin()
                await asyncio.to_thread(one.wait)
        await asyncio.sleep(0.1)


async def chat(running, agent, message):
    """The id of an agent's run in the background; its gateway may die before it says so."""
    first, second = running.gateways
    await asyncio.to_thread(first.wait)
    await asyncio.to_thread(second.wait)
    with contextlib.suppress(httpx2.TransportError):
        await call(first.url, "chat_with_agent", {"agent_name": agent, "message": message, "async": True})
    async with asyncio.timeout(120):
        while not (found := [one["id"] for one in await executions(second.url) if one["message"] == message]):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.2)
    return found[0]


async def test_what_kills_whoever_takes_it_is_given_up(fleet, postgres):
    made = fleet(2, gateway=f'max_resumes = {GIVEN_UP_AFTER}\nlocal = ["doom.py"]', more=POISON)
    (made.folder / "doom.py").write_text(DOOM.replace("{folder}", str(made.folder)))
    for one in made.gateways:
        one.config.write_text(one.config.read_text() + f'\n[plugins.dbos]\ndatabase = "{postgres.database()}"\n')
    with made.running() as running:
        first, second = running.gateways
        deaths = []
        keeping = asyncio.create_task(kept_up(running, deaths))
        tasks = [{"id": "a", "tool": "bank:poison", "arguments": {"to": "plan"}, "idempotency_key": "a"}]
        begun = await call(first.url, "execute_workflow", {"workflow": {"tasks": tasks}, "async": True})
        plan = begun["result"]["structuredContent"]["execution_id"]
        await until(lambda: len(deaths) >= 1 + GIVEN_UP_AFTER, "the plan kills those that take it")
        told = await ended(second.url, plan)
        assert f"gone on with {GIVEN_UP_AFTER} times" in json.dumps(told), json.dumps(told)[:3000]
        assert running.payments() == ["poison-plan"] * (1 + GIVEN_UP_AFTER)

        agent = await chat(running, "taster", "agent")
        told = await ended(second.url, agent)
        assert "it was not run again" in json.dumps(told), json.dumps(told)[:3000]
        assert running.payments().count("poison-agent") == 1

        # One that kills before it has begun is not known to have done anything, so it is tried more than once.
        doomed = await chat(running, "doomed", "doom")
        told = await ended(second.url, doomed)
        assert "it is not tried any more" in json.dumps(told), json.dumps(told)[:3000]
        assert (running.folder / "doomed").read_text() == "x" * MOST_TRIES
        keeping.cancel()
