from __future__ import annotations

import asyncio
import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pml_hookspecs import RawObject, RunOptions, Session, Status, ToolCall, TransportError, encode
from pml_settings.config import ServerSettings
from pml_testing.downstream import Connections, a_while, connected, moving_clock, state, until
from pml_testing.gateway import Client, ScriptedServer

pytestmark = pytest.mark.anyio


class Gated(ScriptedServer):
    """Answers each call when its gate is opened, by the number in its arguments; keeps who came in which order."""

    def __init__(self) -> None:
        super().__init__(["read"])
        self.gates: dict[int, asyncio.Event] = {}
        self.order: list[int] = []
        self.tokens: list[Any] = []

    async def serve(self, method, params):
        if method != "tools/call":
            return await super().serve(method, params)
        number = params["arguments"]["n"]
        self.order.append(number)
        self.tokens.append(params.get("_meta", {}).get("progressToken"))
        await self.gates.setdefault(number, asyncio.Event()).wait()
        return {"content": [], "structuredContent": {"n": number}}

    def open(self, *numbers: int) -> None:
        for number in numbers:
            self.gates.setdefault(number, asyncio.Event()).set()

    def report(self, token: Any) -> None:
        note = {"progressToken": token, "progress": 1}
        self.handler.notification("notifications/progress", RawObject(encode(note)))


def limited(server: ScriptedServer, other: ScriptedServer | None = None, **settings):
    """A gateway with the server ``fs`` that has these settings, and another one without."""
    transport = Connections({"fs": lambda: server, "other": lambda: other})
    servers = {"fs": ServerSettings(address="scripted:fs", **settings)}
    if other is not None:
        servers["other"] = ServerSettings(address="scripted:other")
    return connected(transport, servers)


def calls(client: Client, *numbers: int) -> list[asyncio.Task[Any]]:
    return [asyncio.ensure_future(client.call("fs__read", {"n": n})) for n in numbers]


def text_of(result: dict[str, Any]) -> str:
    assert result["isError"] is True
    return result["content"][0]["text"]


def places(made):
    return made.servers["fs"]._main.calls._in_flight


# How many at a time


@pytest.mark.parametrize("most", [1, 2])
async def test_requests_above_the_limit_wait_in_order(most):
    server = Gated()
    async with limited(server, max_in_flight=most) as made:
        tasks = calls(Client(made), *range(6))
        for done in range(6):
            await a_while()
            assert server.order == list(range(min(6, most + done)))
            server.open(done)
            assert (await tasks[done])["structuredContent"] == {"n": done}
        assert (places(made).count, places(made).waiting) == (0, 0)


async def test_a_full_queue_refuses_at_once_with_advice_and_other_servers_know_nothing_of_it():
    server, other = Gated(), ScriptedServer(["read"])
    async with limited(server, other, max_in_flight=1, max_queued=2) as made:
        client = Client(made)
        tasks = calls(client, 0, 1, 2)
        await a_while()
        refused = await client.call("fs__read", {"n": 3})
        assert text_of(refused).startswith("MCP server fs not connected: it is busy: 1 requests are on their way and 2")
        assert "raise max_in_flight or max_queued in [servers.fs]" in text_of(refused)
        assert refused["_meta"]["pml/failure"]["retryable"] is True
        assert (await client.call("other__read", {"a": 1}))["structuredContent"] == {"a": 1}
        server.open(0, 1, 2)
        assert [(await task)["structuredContent"]["n"] for task in tasks] == [0, 1, 2]
        server.open(4)
        assert (await client.call("fs__read", {"n": 4}))["structuredContent"] == {"n": 4}


async def test_the_time_in_the_queue_counts_and_a_timeout_there_says_so(monkeypatch):
    server = Gated()
    async with limited(server, max_in_flight=1, timeout_s=30) as made:
        advance, client = moving_clock(monkeypatch), Client(made)
        (first,) = calls(client, 0)
        await a_while()
        advance(10)
        (second,) = calls(client, 1)
        await a_while()
        advance(21)
        assert "no answer to tools/call within 30 s" in text_of(await first)
        await a_while()
        assert server.order == [0, 1]
        advance(10)
        said = text_of(await second)
        # To what the test has go by comes what it takes itself.
        assert re.search(r"before that it waited 2[1-9](\.\d)? s for its turn", said), said


async def test_no_turn_at_all_in_time_is_told_apart_from_no_answer(monkeypatch):
    server = Gated()
    async with limited(server, max_in_flight=1, timeout_s=30, reset_timeout_on_progress=True) as made:
        advance, client = moving_clock(monkeypatch), Client(made)
        first, second = calls(client, 0, 1)
        await a_while()
        advance(20)
        server.report(server.tokens[0])  # the first has more time, the second has not
        advance(11)
        assert text_of(await second).startswith("server 'fs' is busy: no turn came within 30 s; 1 requests are on")
        assert server.order == [0]
        server.open(0)
        await first


async def test_a_deadline_that_passes_in_the_queue_is_the_runs_own():
    server = Gated()
    async with limited(server, max_in_flight=1) as made:
        (first,) = calls(Client(made), 0)
        await a_while()
        soon = datetime.now(UTC) + timedelta(seconds=0.05)
        task = ToolCall(id="t", tool="fs:read", arguments={"n": 1})
        outcome = await made.dispatcher.start(task, Session(key="k"), RunOptions(deadline=soon))
        assert outcome.status is Status.TIMED_OUT
        assert (server.order, places(made).waiting) == ([0], 0)
        server.open(0)
        await first


async def test_who_is_cancelled_while_waiting_gives_the_place_up():
    server = Gated()
    async with limited(server, max_in_flight=1, max_queued=2) as made:
        client = Client(made)
        first, second, third = calls(client, 0, 1, 2)
        await a_while()
        second.cancel()
        await a_while()
        (fourth,) = calls(client, 3)
        server.open(0, 2, 3)
        await asyncio.gather(first, third, fourth)
        assert server.order == [0, 2, 3]
        assert second.cancelled()


async def test_ten_thousand_calls_with_random_cancellations_leave_nothing_behind():
    dice = random.Random(7)
    most = running = 0

    async def busy(name, arguments):
        nonlocal most, running
        running += 1
        most = max(most, running)
        try:
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
        finally:
            running -= 1
        return {"content": [], "structuredContent": arguments}

    async with limited(ScriptedServer(["read"], busy), max_in_flight=5) as made:
        server = made.servers["fs"]
        answers = cancelled = 0
        for _ in range(20):
            tasks = [
                asyncio.ensure_future(
                    server._main.send("tools/call", RawObject.of({"name": "read", "arguments": {"n": n}}), 60)
                )
                for n in range(500)
            ]
            while not all(task.done() for task in tasks):
                await asyncio.sleep(0)
                dice.choice(tasks).cancel()
            for n, answer in enumerate(await asyncio.gather(*tasks, return_exceptions=True)):
                if isinstance(answer, asyncio.CancelledError):
                    cancelled += 1
                else:
                    assert answer["structuredContent"] == {"n": n}
                    answers += 1
        assert answers + cancelled == 10_000
        assert min(answers, cancelled) > 500
        kept = server._main.calls
        assert (kept.count, running, most) == (0, 0, 5)
        assert (len(kept.callers), kept._sinks, kept._clocks) == (0, {}, set())


async def test_those_who_wait_while_the_connection_is_lost_use_the_next_one(quick):
    server = Gated()
    async with limited(server, max_in_flight=1) as made:
        client = Client(made)
        first, second = calls(client, 0, 1)
        await a_while()
        server.lose("it crashed")
        await until(lambda: state(made).restarts == 1 and state(made).state == "up")
        server.open(0, 1)
        await first
        assert (await second)["structuredContent"] == {"n": 1}


async def test_those_who_wait_for_a_server_that_is_gone_hear_why(quick):
    server = Gated()
    async with limited(server, max_in_flight=1) as made:
        first, second = calls(Client(made), 0, 1)
        await a_while()
        server.refuse = "no such program"
        server.handler.closed(TransportError("it crashed", retryable=True))
        await until(lambda: "no such program" in state(made).reason)
        server.open(0)
        await first
        assert text_of(await second) == "MCP server fs not connected: no such program"


# How long


async def progressing(made, server: Gated, advance, client: Client, asked: dict[str, Any], times: int = 4):
    """A call during which the server reports every 40 s, for as long as it is heard."""
    call = asyncio.ensure_future(client.call("fs__read", {"n": 0}, **asked))
    await until(lambda: server.order)
    for _ in range(times):
        advance(40)
        if server.tokens[0] is not None:
            server.report(server.tokens[0])
        await a_while()
    return call


async def test_progress_gives_no_more_time_unless_that_is_configured(monkeypatch):
    server = Gated()
    async with limited(server, timeout_s=60) as made:
        advance, client = moving_clock(monkeypatch), Client(made)
        call = await progressing(made, server, advance, client, {"_meta": {"progressToken": "t"}})
        assert "within 60 s" in text_of(await call)
        assert len(client.link.notified) == 2  # those before the time was over


@pytest.mark.parametrize("asked", [{"_meta": {"progressToken": "t"}}, {}])
async def test_progress_gives_all_the_time_again_where_that_is_configured_also_unasked(monkeypatch, asked):
    server = Gated()
    async with limited(server, timeout_s=60, reset_timeout_on_progress=True) as made:
        advance, client = moving_clock(monkeypatch), Client(made)
        call = await progressing(made, server, advance, client, asked)
        assert not call.done()
        server.open(0)
        assert (await call)["structuredContent"] == {"n": 0}
        assert [note["progressToken"] for _, note in client.link.notified] == (["t"] * 4 if asked else [])


async def test_a_call_that_is_silent_for_too_long_ends_all_the_same(monkeypatch):
    server = Gated()
    async with limited(server, timeout_s=60, reset_timeout_on_progress=True) as made:
        advance = moving_clock(monkeypatch)
        call = await progressing(made, server, advance, Client(made), {}, times=2)
        advance(61)
        assert text_of(await call) == "server 'fs' did not answer tools/call within 60 s"


async def test_progress_gives_all_of_the_time_also_to_a_call_that_waited_for_its_turn(monkeypatch):
    server = Gated()
    async with limited(server, timeout_s=60, reset_timeout_on_progress=True, max_in_flight=1) as made:
        advance, client = moving_clock(monkeypatch), Client(made)
        first, second = calls(client, 0, 1)
        await a_while()
        advance(50)
        server.open(0)
        await first
        await a_while()
        server.report(server.tokens[1])
        advance(50)
        await a_while()
        server.open(1)
        assert (await second)["structuredContent"] == {"n": 1}


async def test_a_deadline_of_the_run_is_not_put_off_by_progress():
    server = Gated()
    async with limited(server, timeout_s=60, reset_timeout_on_progress=True) as made:
        soon = datetime.now(UTC) + timedelta(seconds=0.1)
        task = ToolCall(id="t", tool="fs:read", arguments={"n": 0})
        run = asyncio.ensure_future(made.dispatcher.start(task, Session(key="k"), RunOptions(deadline=soon)))
        await until(lambda: server.order)
        while not run.done():
            server.report(server.tokens[0])
            await asyncio.sleep(0)
        assert (await run).status is Status.TIMED_OUT
        assert datetime.now(UTC) - soon < timedelta(seconds=2)
