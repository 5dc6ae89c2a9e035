"""A client without a handshake and a server with one: its questions wait for the client's next request."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import pytest

from pml_hookspecs import MetaTool, Origin, RawObject, RpcError, ToolCall, Workflow, encode, hookimpl
from pml_testing.dispatching import InOrder
from pml_testing.gateway import Client, ScriptedServer, error_of, running, until

pytestmark = pytest.mark.anyio
SURE = {"method": "elicitation/create", "params": {"message": "sure?", "requestedSchema": {"type": "object"}}}
THINK = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}
ROOTS = {"method": "roots/list"}
ABLE = {"elicitation": {}, "sampling": {}, "roots": {}}
YES = {"action": "accept", "content": {"n": 1}}
DONE = {"content": [{"type": "text", "text": "done"}]}
either_peer = pytest.mark.parametrize("stateless", [False, True])


def asking(*questions, told=None):
    """A server with a handshake that asks, one after the other, while it answers a call."""
    server = ScriptedServer(["do"])
    server.told = [] if told is None else told

    async def answer(name, arguments):
        for question in questions:
            try:
                server.told.append(await server.ask(question["method"], question.get("params", {})))
            except RpcError as error:
                server.told.append(error)
        return {"content": [], "structuredContent": {"told": len(server.told)}}

    server.answer = answer
    return server


def newer(made, stateless, capabilities=ABLE, **options):
    return Client(made, modern=True, stateless=stateless, capabilities=capabilities, **options)


def retry(client, asked, answers=None, name="a__do", **params):
    """The same call once more, with answers to all that was asked, or those given."""
    given = dict.fromkeys(asked["inputRequests"], YES) if answers is None else answers
    return client.call(name, inputResponses=given, requestState=asked["requestState"], **params)


@either_peer
async def test_a_question_becomes_the_answer_and_the_answer_comes_with_the_next_request(stateless):
    server = asking(SURE)
    async with running({"a": server}) as made:
        client = newer(made, stateless)
        asked = await client.call("a__do", {"x": 1})
        assert asked["resultType"] == "input_required"
        assert list(asked["inputRequests"].values()) == [SURE]
        assert isinstance(asked["requestState"], str)
        assert {"ttlMs", "cacheScope"}.isdisjoint(asked)
        assert len(made.pending_input) == 1
        result = await retry(client, asked)
        assert (result["resultType"], result["structuredContent"]) == ("complete", {"told": 1})
        assert server.told == [YES]
        assert server.calls == [("do", {"x": 1})]
        assert len(made.pending_input) == 0
        assert client.late == []


@either_peer
async def test_questions_come_one_after_the_other_each_under_a_new_state(stateless):
    server = asking(SURE, THINK, ROOTS)
    async with running({"a": server}) as made:
        client = newer(made, stateless)
        answer, seen, states = await client.call("a__do"), [], set()
        while answer["resultType"] == "input_required":
            ((key, question),) = answer["inputRequests"].items()
            seen.append(question)
            states.add(answer["requestState"])
            answer = await retry(client, answer, {key: {"answer": len(seen)}})
        assert seen == [SURE, THINK, ROOTS]
        assert len(states) == 3
        assert server.told == [{"answer": n} for n in (1, 2, 3)]


@either_peer
async def test_questions_that_come_together_are_asked_together_and_what_is_left_out_is_asked_again(stateless):
    server = ScriptedServer(["do"])
    told: dict = {}

    async def answer(name, arguments):
        async def one(key, question):
            told[key] = await server.ask(question["method"], question.get("params", {}))

        await asyncio.gather(one("a", SURE), one("b", THINK))
        return DONE

    server.answer = answer
    async with running({"a": server}) as made:
        client = newer(made, stateless)
        asked = await client.call("a__do")
        keys = {question["method"]: key for key, question in asked["inputRequests"].items()}
        assert set(keys) == {SURE["method"], THINK["method"]}
        again = await retry(client, asked, {keys[THINK["method"]]: {"role": "assistant"}, "unknown": {}})
        assert list(again["inputRequests"].values()) == [SURE]
        for odd in (None, 5, "x", []):
            again = await retry(client, again, {keys[SURE["method"]]: odd})
            assert again["inputRequests"] == {keys[SURE["method"]]: SURE}
        assert (await retry(client, again))["content"] == DONE["content"]
        assert told == {"a": YES, "b": {"role": "assistant"}}


@either_peer
async def test_the_bytes_of_a_pending_question_and_its_answer_are_not_touched(stateless):
    server = ScriptedServer(["do"])
    seen = []

    async def answer(name, arguments):
        link = server.link
        reply = await link.handler.request(
            "elicitation/create", RawObject(b'{"z":1E+2,"a":123456789012345678901234567890}'), Origin(1, link)
        )
        seen.append(encode(reply))
        return DONE

    server.answer = answer
    async with running({"a": server}) as made:
        client = newer(made, stateless)
        params = {"name": "a__do", "arguments": {}, "_meta": client.meta()}
        asked = await client.send("tools/call", json.dumps(params).encode())
        assert b'"params":{"z":1E+2,"a":123456789012345678901234567890}' in asked.raw
        (key,) = asked["inputRequests"]
        given = b'{"action":"accept","content":{"n":1E+2}}'
        text = json.dumps({**params, "requestState": asked["requestState"], "inputResponses": {key: "HERE"}})
        await client.send("tools/call", text.encode().replace(b'"HERE"', given))
        assert seen == [given]


@either_peer
async def test_a_state_is_good_for_the_request_that_it_was_given_for(stateless):
    server = asking(SURE)
    server.tools.append({"name": "other", "inputSchema": {"type": "object"}})
    server.offers["prompts"] = {}

    async def prompts(params):
        return {"prompts": [{"name": "do"}]}

    server.others["prompts/list"] = prompts
    async with running({"a": server}) as made:
        client = newer(made, stateless)
        stranger = newer(made, stateless, principal="mallory")
        asked = await client.call("a__do")
        given = {"requestState": asked["requestState"], "inputResponses": dict.fromkeys(asked["inputRequests"], YES)}
        attempts = [
            stranger.call("a__do", **given),
            client.call("a__other", **given),
            client.request("prompts/get", {"name": "a__do", **given}),
            client.request("resources/read", {"uri": "a__do", **given}),
        ]
        for attempt in attempts:
            assert (await error_of(attempt)).code == -32602
        assert server.told == []
        assert (await retry(client, asked))["resultType"] == "complete"
        assert server.calls == [("do", {})]


@either_peer
async def test_a_state_is_good_once(stateless):
    server = asking(SURE)
    async with running({"a": server}) as made:
        client = newer(made, stateless)
        asked = await client.call("a__do")
        await retry(client, asked)
        assert (await error_of(retry(client, asked))).code == -32602
        assert (await error_of(retry(newer(made, stateless, capabilities={}), asked))).code == -32602
        assert server.calls == [("do", {})]


@either_peer
async def test_a_server_whose_question_nobody_answers_is_told_in_time(stateless):
    server = asking(SURE, THINK)
    async with running({"a": server}, answer_wait_s=0.03) as made:
        client = newer(made, stateless)
        asked = await client.call("a__do")
        await until(lambda: len(server.told) == 2)
        assert [(e.code, "did not come back" in e.message) for e in server.told] == [(-31999, True)] * 2
        assert len(made.pending_input) == 0
        assert (await error_of(retry(client, asked))).code == -32602


async def test_of_too_many_waiting_requests_the_oldest_is_given_up(monkeypatch):
    monkeypatch.setattr("pml_core.assemble.MOST_PENDING", 2)
    server = asking(SURE)
    async with running({"a": server}) as made:
        client = newer(made, stateless=False)
        asked = [await client.call("a__do") for _ in range(3)]
        await until(lambda: len(server.told) == 1)
        assert (await error_of(retry(client, asked[0]))).code == -32602
        for question in asked[1:]:
            assert (await retry(client, question))["resultType"] == "complete"


@either_peer
@pytest.mark.parametrize("eras", [["legacy"], ["modern"]])
@pytest.mark.parametrize("state", ["", "server-own", "é"])
async def test_a_state_that_is_no_gateways_goes_to_the_server(state, eras, stateless):
    server = ScriptedServer(["do"], eras=eras)
    async with running({"a": server}) as made:
        await newer(made, stateless).call("a__do", requestState=state, inputResponses={"q": YES})
        assert server.params[-1]["requestState"] == state
        assert server.params[-1]["inputResponses"] == {"q": YES}


@either_peer
@pytest.mark.parametrize("able", [ABLE, {}])
async def test_an_answer_at_another_gateway_runs_nothing_and_says_so(able, stateless):
    server, other = asking(SURE), asking(SURE)
    async with running({"a": server}) as made, running({"a": other}) as elsewhere:
        asked = await newer(made, stateless).call("a__do")
        there = newer(elsewhere, stateless, able)
        errors = [await error_of(retry(there, asked))]
        errors += [await error_of(retry(there, {**asked, "requestState": state})) for state in ("pml.", "pml.x.y")]
        assert {(e.code, "this gateway did not give it out" in e.message) for e in errors} == {(-32602, True)}
        assert other.calls == []
        assert (await retry(newer(made, stateless), asked))["structuredContent"] == {"told": 1}


@either_peer
async def test_the_state_of_a_gateway_behind_this_one_goes_back_to_it(stateless):
    question = {"resultType": "input_required", "inputRequests": {"q": SURE}, "requestState": "pml.other.1"}
    server = ScriptedServer(["do"], eras=["modern"])

    async def answer(name, arguments):
        return DONE if "requestState" in server.params[-1] else question

    server.answer = answer
    async with running({"a": server}) as made:
        client = newer(made, stateless)
        asked = await client.call("a__do")
        assert asked["requestState"] == "pml.other.1"
        assert (await retry(client, asked))["content"] == DONE["content"]


class Tools:
    """A tool of the gateway's own, and one that stands for a plan."""

    def __init__(self):
        self.ran = []

    @hookimpl
    def pml_meta_tools(self, services):
        async def own(arguments, run):
            self.ran.append("own")
            return {}

        schema = {"inputSchema": {"type": "object"}}
        part = ToolCall(id="a", tool="pml:own")
        return [
            MetaTool(definition={"name": "own", **schema}, call=own),
            MetaTool(definition={"name": "plan", **schema}, task=lambda _: Workflow(id="p", tasks=(part,))),
        ]


@either_peer
@pytest.mark.parametrize("state", ["", "made-up", 7])
@pytest.mark.parametrize("name", ["own", "plan"])
async def test_no_answer_begins_what_the_gateway_itself_runs(name, state, stateless):
    tools = Tools()
    plugins = {("hooks", "tools"): tools, ("executor", "in_order"): InOrder}
    async with running({}, plugins=plugins) as made:
        client = newer(made, stateless)
        told = await client.call(name, requestState=state, inputResponses={"q": YES})
        assert told["isError"]
        assert "this gateway did not give it out" in told["content"][0]["text"]
        assert tools.ran == []
        assert not (await client.call(name)).get("isError")
        assert tools.ran == ["own"]


@either_peer
async def test_one_abandoned_question_does_not_block_the_next_of_its_key(stateless):
    server = asking(SURE)
    async with running({"a": server}) as made:
        await newer(made, stateless).call("a__do")
        for _ in range(2):
            client = newer(made, stateless)
            asked = await client.call("a__do")
            assert (await retry(client, asked))["structuredContent"]["told"] > 0
        assert server.told == [YES, YES]


@pytest.mark.attack
async def test_what_another_key_left_unanswered_is_asked_of_nobody_else():
    server = asking(SURE)
    async with running({"a": server}) as made:
        await newer(made, stateless=True, principal="alice").call("a__do")
        assert (await newer(made, stateless=True, principal="mallory").call("a__do"))["resultType"] == "complete"
        assert [error.code for error in server.told] == [-31999]


@either_peer
@pytest.mark.parametrize("able", [{}, {"sampling": {}}, {"elicitation": None}])
async def test_a_client_that_cannot_answer_is_not_asked(able, stateless):
    server = asking(SURE)
    async with running({"a": server}) as made:
        client = newer(made, stateless, able)
        assert (await client.call("a__do"))["resultType"] == "complete"
        assert (server.told[0].code, server.told[0].message) == (-32600, "Elicitation not supported")


@either_peer
async def test_questions_that_only_a_connection_could_carry_are_refused(stateless):
    server = asking({"method": "vendor/ask"})
    async with running({"a": server}) as made:
        assert (await newer(made, stateless).call("a__do"))["resultType"] == "complete"
        assert server.told[0].code == -32601


@either_peer
async def test_a_request_that_cannot_be_answered_by_a_question_is_not(stateless):
    server = asking(SURE)
    server.offers["completions"] = {}

    async def completes(params):
        await server.answer("x", {})
        return {"completion": {"values": []}}

    async def prompts(params):
        return {"prompts": [{"name": "greet"}]}

    server.offers["prompts"] = {}
    server.others = {"completion/complete": completes, "prompts/list": prompts}
    async with running({"a": server}, call_timeout_s=5) as made:
        ref = {"ref": {"type": "ref/prompt", "name": "a__greet"}, "argument": {"name": "x", "value": ""}}
        answer = await newer(made, stateless).request("completion/complete", ref)
        assert answer["completion"] == {"values": []}
        assert server.told[0].code == -31999


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
