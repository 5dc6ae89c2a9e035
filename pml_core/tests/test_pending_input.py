"""A client without a handshake and a server with one: its questions wait for the client's next request."""

from __future__ import annotations

import asyncio
import json

import pytest
from pending_questions import ABLE, DONE, ROOTS, SURE, THINK, YES, asking, either_peer, newer, retry

from pml_hookspecs import MetaTool, Origin, RawObject, ToolCall, Workflow, encode, hookimpl
from pml_testing.dispatching import InOrder
from pml_testing.gateway import ScriptedServer, error_of, running, until

pytestmark = pytest.mark.anyio


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
        assert asked["requestState"] == "pml>pml.other.1"
        assert (await retry(client, asked))["content"] == DONE["content"]
        assert server.params[-1]["requestState"] == "pml.other.1"


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
