"""How a request ends that waits for its client to come back: in time, taken back, failed, or with the gateway."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from pending_questions import DONE, SURE, YES, asking, either_peer, newer, retry

from pml_hookspecs import RpcError
from pml_testing.gateway import ScriptedServer, error_of, running, until

pytestmark = pytest.mark.anyio


@either_peer
async def test_what_the_client_takes_to_come_back_does_not_count_against_the_call(stateless, frozen_clock):
    server = asking(SURE)
    async with running({"a": server}, call_timeout_s=20) as made:
        client = newer(made, stateless)
        asked = await client.call("a__do")
        frozen_clock.advance(30)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (await retry(client, asked))["structuredContent"] == {"told": 1}


@either_peer
async def test_taking_the_second_request_back_cancels_the_work(stateless):
    ended = asyncio.Event()
    server = ScriptedServer(["do"])

    async def answer(name, arguments):
        try:
            await server.ask(SURE["method"], SURE["params"])
            await asyncio.Event().wait()
        finally:
            ended.set()

    server.answer = answer
    async with running({"a": server}) as made:
        client = newer(made, stateless)
        asked = await client.call("a__do")
        again = asyncio.ensure_future(retry(client, asked))
        await until(lambda: not made.pending_input)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not ended.is_set()
        again.cancel()
        with suppress(asyncio.CancelledError):
            await again
        assert ended.is_set()


@either_peer
async def test_a_server_that_takes_its_question_back_goes_on_alone(stateless):
    server = ScriptedServer(["do"])
    gate = asyncio.Event()

    async def answer(name, arguments):
        question = asyncio.ensure_future(server.ask(SURE["method"], SURE["params"]))
        await gate.wait()
        question.cancel()
        return DONE

    server.answer = answer
    async with running({"a": server}) as made:
        client = newer(made, stateless)
        asked = await client.call("a__do")
        gate.set()
        assert (await retry(client, asked))["content"] == DONE["content"]


@either_peer
async def test_a_server_that_fails_while_a_request_waits_tells_so_when_the_client_comes_back(stateless):
    server = ScriptedServer(["do"])
    gate = asyncio.Event()

    async def answer(name, arguments):
        question = asyncio.ensure_future(server.ask(SURE["method"], SURE["params"]))
        await gate.wait()
        question.cancel()
        raise RpcError(-31000, "broken", {"x": 1})

    server.answer = answer
    async with running({"a": server}) as made:
        client = newer(made, stateless)
        asked = await client.call("a__do")
        gate.set()
        error = await error_of(retry(client, asked))
        assert (error.code, error.data) == (-31000, {"x": 1})


@either_peer
async def test_nothing_is_left_of_a_request_that_waits_when_the_gateway_closes(stateless):
    before = asyncio.all_tasks()
    server = asking(SURE)
    async with running({"a": server}, answer_wait_s=600.0) as made:
        await newer(made, stateless).call("a__do")
        assert len(made.pending_input) == 1
    await asyncio.sleep(0)
    assert asyncio.all_tasks() - before == set()
    assert len(made.pending_input) == 0


async def test_nothing_is_left_of_a_request_that_was_given_up_when_the_gateway_closes():
    before = asyncio.all_tasks()
    server = ScriptedServer(["do"])

    async def answer(name, arguments):
        with suppress(RpcError):
            await server.ask(SURE["method"], SURE["params"])
        server.told = True
        await asyncio.Event().wait()

    server.answer, server.told = answer, False
    async with running({"a": server}, answer_wait_s=0.02) as made:
        await newer(made, stateless=False).call("a__do")
        await until(lambda: server.told)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() - before == set()


@either_peer
async def test_progress_and_messages_follow_the_client_to_its_next_request(stateless):
    server = ScriptedServer(["do"])

    async def answer(name, arguments):
        token = server.params[-1]["_meta"]["progressToken"]

        def tell(n):
            server.tell("notifications/progress", {"progressToken": token, "progress": n})
            server.tell("notifications/message", {"level": "info", "data": n})

        tell(1)
        question = asyncio.ensure_future(server.ask(SURE["method"], SURE["params"]))
        await until(lambda: made.pending_input)
        tell(2)
        await question
        tell(3)
        return DONE

    server.answer = answer
    async with running({"a": server}) as made:
        client = newer(made, stateless, log_level="info")
        asked = await client.call("a__do", _meta={"progressToken": "first"})
        await retry(client, asked, _meta={"progressToken": "second"})
        progress = [(p["progressToken"], p["progress"]) for m, p in client.link.notified if m.endswith("progress")]
        assert progress == [("first", 1), ("second", 3)]
        assert [p["data"] for m, p in client.link.notified if m.endswith("message")] == [1, 3]
        assert client.late == []


async def test_a_question_that_hangs_on_another_request_of_the_same_person_is_asked_all_the_same():
    server = ScriptedServer(["do"])
    second, asked_already = asyncio.Event(), asyncio.Event()
    told: list = []

    async def answer(name, arguments):
        if arguments.get("first"):
            await second.wait()
            question = asyncio.ensure_future(server.ask(SURE["method"], SURE["params"]))
            for _ in range(5):
                await asyncio.sleep(0)
            asked_already.set()
            told.append(await question)
            return {"content": [], "structuredContent": {"n": 1}}
        second.set()
        await asked_already.wait()
        return {"content": [], "structuredContent": {"n": 2}}

    server.answer = answer
    async with running({"a": server}) as made:
        client = newer(made, stateless=False)
        calls = [asyncio.ensure_future(client.call("a__do", arguments)) for arguments in ({"first": True}, {})]
        async with asyncio.timeout(30):
            done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            (asked,) = done
            rest = [call for call in calls if call is not asked]
            assert asked.result()["resultType"] == "input_required"
            results = [await retry(client, asked.result()), *[await call for call in rest]]
        assert sorted(r["structuredContent"]["n"] for r in results) == [1, 2]
        assert told == [YES]


async def test_a_question_is_refused_when_it_cannot_be_known_which_request_it_is_about():
    both = asyncio.Barrier(2)
    server = asking(SURE)
    asks_ = server.answer

    async def answer(name, arguments):
        await both.wait()
        return await asks_(name, arguments)

    server.answer = answer
    async with running({"a": server}) as made:
        one = newer(made, stateless=True)
        two = newer(made, stateless=True, behind=one)
        results = await asyncio.gather(one.call("a__do"), two.call("a__do"))
        assert {r["resultType"] for r in results} == {"complete"}
        assert {e.code for e in server.told} == {-31999}
