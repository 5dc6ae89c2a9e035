"""Clients and servers of different eras: who is asked what, in which words, and what becomes of the answers."""

from __future__ import annotations

import asyncio
import json
import types

import pytest

from pml_hookspecs import MetaTool, RawObject, RpcError, ToolCall, Workflow, hookimpl
from pml_kit.mcp.protocol import META_CLIENT_CAPABILITIES, META_CLIENT_INFO, META_LOG_LEVEL, META_PROTOCOL_VERSION
from pml_mcp.servers.connection import input_requests as rounds
from pml_testing.fakes import outcome
from pml_testing.gateway import Client, ScriptedServer, asks, error_of, running

pytestmark = pytest.mark.anyio
SURE = {"method": "elicitation/create", "params": {"message": "sure?", "requestedSchema": {"type": "object"}}}
THINK = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}
ROOTS = {"method": "roots/list"}
ABLE = {"elicitation": {}, "sampling": {}, "roots": {}}
YES = {"action": "accept", "content": {"n": 1}}
DONE = {"content": [{"type": "text", "text": "done"}]}
either_peer = pytest.mark.parametrize("stateless", [False, True])


def answering(client, **answers):
    """Have a client with a handshake answer: ``method__name=result``, or an exception."""
    asked: list = []

    def answer(method, value):
        async def given(params):
            asked.append((method, params))
            if isinstance(value, Exception):
                raise value
            return value

        return given

    for name, value in answers.items():
        method = name.replace("__", "/")
        client.peer.others[method] = answer(method, value)
    return asked


def scripted(*script, **options):
    server = ScriptedServer(["do"], eras=["modern"], **options)
    server.script = list(script)
    return server


# A client with a handshake, a server without


async def older(made, capabilities=ABLE, **answers):
    client = Client(made)
    await client.initialize(capabilities)
    return client, answering(client, **answers)


async def test_a_server_without_a_handshake_serves_a_client_with_one():
    server = scripted(DONE)
    async with running({"a": server}) as made:
        client, _ = await older(made, {"sampling": {"tools": {}}})
        assert (await client.call("a__do", {"x": 1}))["content"] == DONE["content"]
        assert "initialize" not in server.links[-1].requested[1:]
        assert server.calls == [("do", {"x": 1})]
        (meta,) = [m for method, m in server.metas if method == "tools/call"]
        assert meta[META_PROTOCOL_VERSION] == "2026-07-28"
        assert meta[META_CLIENT_CAPABILITIES] == {"sampling": {"tools": {}}}
        assert meta[META_CLIENT_INFO]["name"] == "test"


async def test_what_the_gateway_does_for_itself_promises_nothing():
    server = scripted()
    server.offers = {"tools": {}, "resources": {}}

    async def nothing(params):
        return {"resources": []}

    server.others["resources/list"] = nothing
    async with running({"a": server}) as made:
        client, _ = await older(made)
        await client.request("resources/list")
        metas = [m for method, m in server.metas if method.endswith(("/list", "/discover"))]
        assert len(metas) >= 3
        assert all(m[META_CLIENT_CAPABILITIES] == {} and META_LOG_LEVEL not in m for m in metas)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (SURE, {"action": "accept", "content": {"n": 1}}),
        (SURE, {"action": "decline"}),
        (THINK, {"role": "assistant", "content": {"type": "text", "text": "é"}, "model": "m"}),
        (ROOTS, {"roots": [{"uri": "file:///x"}]}),
    ],
)
async def test_a_servers_question_is_put_to_the_client_and_the_answer_sent_with_the_request(question, answer):
    server = scripted(asks("s-1", q=question), DONE)
    async with running({"a": server}) as made:
        client, asked = await older(made, **{question["method"].replace("/", "__"): answer})
        assert (await client.call("a__do", {"x": 1}))["content"] == DONE["content"]
        assert asked == [(question["method"], question.get("params", {}))]
        first, second = server.params
        assert {"inputResponses", "requestState"}.isdisjoint(first)
        assert second["inputResponses"] == {"q": answer}
        assert second["requestState"] == "s-1"
        assert second["arguments"] == {"x": 1}
        assert second["_meta"][META_CLIENT_CAPABILITIES] == ABLE


async def test_several_questions_are_asked_together():
    server = scripted(asks(None, a=SURE, b=THINK, c=ROOTS), DONE)
    together = asyncio.Barrier(3)
    async with running({"a": server}) as made:
        client, _ = await older(made)

        def meeting(result):
            async def answer(_params):
                await together.wait()
                return result

            return answer

        for question, result in ((SURE, YES), (THINK, {"role": "assistant"}), (ROOTS, {"roots": []})):
            client.peer.others[question["method"]] = meeting(result)
        await client.call("a__do")
        assert server.params[-1]["inputResponses"] == {"a": YES, "b": {"role": "assistant"}, "c": {"roots": []}}
        assert "requestState" not in server.params[-1]


async def test_each_round_has_its_own_answers_and_state():
    states = ["", 'é"\\\u2028', "s" * 5000]
    server = scripted(*(asks(state, **{f"q{n}": SURE}) for n, state in enumerate(states)), asks(None, last=SURE), DONE)
    async with running({"a": server}) as made:
        client, asked = await older(made, elicitation__create=YES)
        await client.call("a__do")
        assert len(asked) == 4
        assert [p.get("requestState") for p in server.params[1:]] == [*states, None]
        assert [list(p["inputResponses"]) for p in server.params[1:]] == [["q0"], ["q1"], ["q2"], ["last"]]


async def test_a_server_that_only_wants_to_be_asked_again_is_asked_again():
    server = scripted(asks("one"), asks("two"), DONE)
    async with running({"a": server}) as made:
        client, asked = await older(made)
        assert (await client.call("a__do"))["content"] == DONE["content"]
        assert asked == []
        assert [p.get("requestState") for p in server.params] == [None, "one", "two"]
        assert all("inputResponses" not in p for p in server.params)


async def test_the_bytes_of_arguments_questions_and_answers_are_not_touched():
    arguments = b'{"z":123456789012345678901234567890,"a":1E+2,"n":1e400}'
    question = b'{"method":"elicitation/create","params":{"z":1E+2,"a":1.0}}'
    answer = b'{"action":"accept","content":{"z":1E+2,"a":1e400}}'
    server = scripted(
        RawObject(b'{"resultType":"input_required","requestState":"\\u00e9","inputRequests":{"q":' + question + b"}}"),
        DONE,
    )
    async with running({"a": server}) as made:
        client, _ = await older(made)
        seen: list[bytes] = []

        async def answers(params):
            seen.append(client.peer.raw[-1][1])
            return RawObject(answer)

        client.peer.others["elicitation/create"] = answers
        await client.send("tools/call", b'{"name":"a__do","arguments":' + arguments + b"}")
        assert seen == [b'{"z":1E+2,"a":1.0}']
        raw = server.raw[-1][1]
        assert b'"arguments":' + arguments in raw
        assert b'"inputResponses":{"q":' + answer + b"}" in raw
        assert b'"requestState":"\\u00e9"' in raw


async def test_a_client_that_refuses_ends_the_call_with_its_error():
    server = scripted(asks("s", a=SURE, b=THINK), DONE)
    async with running({"a": server}) as made:
        client, _ = await older(made, elicitation__create=RpcError(-32042, "no", {"why": 1}))
        began, ended = asyncio.Event(), asyncio.Event()

        async def thinks(_params):
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        client.peer.others["sampling/createMessage"] = thinks
        error = await error_of(client.call("a__do"))
        assert (error.code, error.message, error.data) == (-32042, "no", {"why": 1})
        assert began.is_set() == ended.is_set()
        assert len(server.calls) == 1


async def test_what_a_client_cannot_do_is_not_asked():
    server = scripted(asks("s", a=SURE), DONE)
    async with running({"a": server}) as made:
        client, asked = await older(made, {"sampling": {}}, elicitation__create=YES)
        error = await error_of(client.call("a__do"))
        assert (error.code, error.message, asked) == (-32600, "Elicitation not supported", [])


@pytest.mark.parametrize("odd", [5, None, "x", [], {}, {"method": 5}, {"params": {}}])
async def test_a_question_that_is_no_request_fails_the_call_and_nothing_else(odd):
    server = scripted({"resultType": "input_required", "inputRequests": {"q": odd}}, DONE)
    async with running({"a": server}) as made:
        client, asked = await older(made, elicitation__create=YES)
        assert (await error_of(client.call("a__do"))).code == -31998
        assert asked == []
        assert (await client.call("a__do"))["content"] == DONE["content"]


async def test_a_server_that_never_stops_asking_is_given_up():
    server = scripted(*[asks("s", q=SURE)] * (rounds.MOST_ROUNDS + 5))
    async with running({"a": server}) as made:
        client, asked = await older(made, elicitation__create=YES)
        error = await error_of(client.call("a__do"))
        assert (error.code, f"{rounds.MOST_ROUNDS} times" in error.message) == (-31998, True)
        assert len(asked) == rounds.MOST_ROUNDS


async def test_the_last_round_that_is_allowed_counts():
    server = scripted(*[asks("s", q=SURE)] * rounds.MOST_ROUNDS, DONE)
    async with running({"a": server}) as made:
        client, _ = await older(made, elicitation__create=YES)
        assert (await client.call("a__do"))["content"] == DONE["content"]


async def test_the_level_that_a_client_set_goes_along_with_its_requests():
    server = scripted(DONE, DONE, DONE)
    server.offers["logging"] = {}
    async with running({"a": server}) as made:
        (client, _), (other, _) = await older(made), await older(made)
        await client.call("a__do")
        await client.request("logging/setLevel", {"level": "warning"})
        await client.call("a__do")
        await other.call("a__do")
        levels = [m.get(META_LOG_LEVEL) for method, m in server.metas if method == "tools/call"]
        assert levels == [None, "warning", None]
        assert "logging/setLevel" not in server.links[-1].requested


async def test_prompts_and_resources_may_ask_too():
    server = scripted()
    server.offers = {"tools": {}, "prompts": {}, "resources": {}}
    rounds_left = {
        "prompts/get": [asks("p", q=SURE), {"messages": []}],
        "resources/read": [asks("r", q=SURE), {"contents": []}],
    }

    def from_script(method):
        async def given(params):
            return rounds_left[method].pop(0)

        return given

    async def prompts(params):
        return {"prompts": [{"name": "greet"}]}

    async def resources(params):
        return {"resources": [{"uri": "r:1", "name": "r"}]}

    server.others = {"prompts/list": prompts, "resources/list": resources}
    server.others |= {method: from_script(method) for method in rounds_left}
    async with running({"a": server}) as made:
        client, asked = await older(made, elicitation__create=YES)
        assert (await client.request("prompts/get", {"name": "a__greet"}))["messages"] == []
        assert (await client.request("resources/read", {"uri": "r:1"}))["contents"] == []
        assert len(asked) == 2
        last = dict(server.asked)
        assert last["prompts/get"]["requestState"] == "p"
        assert last["resources/read"]["inputResponses"] == {"q": YES}


async def test_questions_are_asked_of_the_client_whose_call_it_is_however_many_there_are():
    server = scripted(asks("1", q=SURE), asks("2", q=SURE), DONE, DONE)
    async with running({"a": server}) as made:
        one, asked_one = await older(made, elicitation__create={"action": "accept", "content": {"by": "one"}})
        two, asked_two = await older(made, elicitation__create={"action": "accept", "content": {"by": "two"}})
        await asyncio.gather(one.call("a__do", {"who": "one"}), two.call("a__do", {"who": "two"}))
        assert (len(asked_one), len(asked_two)) == (1, 1)
        answers = {p["arguments"]["who"]: p["inputResponses"]["q"]["content"]["by"] for p in server.params[2:]}
        assert answers == {"one": "one", "two": "two"}


# A client and a server without a handshake


def newer(made, stateless, capabilities=ABLE, **options):
    return Client(made, modern=True, stateless=stateless, capabilities=capabilities, **options)


def retry(client, asked, answers=None, name="a__do", **params):
    """The same call once more, with answers to all that was asked, or those given."""
    given = dict.fromkeys(asked["inputRequests"], YES) if answers is None else answers
    return client.call(name, inputResponses=given, requestState=asked["requestState"], **params)


@either_peer
async def test_questions_answers_and_states_pass_as_they_are(stateless):
    question = RawObject(
        b'{"resultType":"input_required","inputRequests":{"q":{"method":"vendor/any","params":{"z":1E+2}}},'
        b'"requestState":"\\u00e9","x-more":1.0}'
    )
    server = scripted(question, DONE)
    async with running({"a": server}) as made:
        client = newer(made, stateless)
        params = {"name": "a__do", "arguments": {}, "_meta": {**client.meta(), "vendor/k": 1, "traceparent": "00-1"}}
        asked = await client.send("tools/call", json.dumps(params).encode())
        assert question.raw[:-1] in asked.raw
        assert "ttlMs" not in asked
        assert len(made.pending_input) == 0
        again = json.dumps({**params, "requestState": "é", "inputResponses": {"q": "HERE"}})
        await client.send("tools/call", again.encode().replace(b'"HERE"', b'{"n":1E+2}'))
        assert b'"inputResponses":{"q":{"n":1E+2}}' in server.raw[-1][1].replace(b": ", b":")
        assert server.params[-1]["requestState"] == "é"
        first, second = (m for method, m in server.metas if method == "tools/call")
        assert first == second == params["_meta"]


@either_peer
async def test_the_envelope_is_the_end_clients_own(stateless):
    server = scripted(DONE)
    async with running({"a": server}) as made:
        info = {"name": "end", "version": "9", "title": "End"}
        able = {"elicitation": {"form": {}}, "x-vendor": {"y": 1}}
        client = newer(made, stateless, able, info=info, log_level="error")
        await client.call("a__do")
        (meta,) = [m for method, m in server.metas if method == "tools/call"]
        assert meta == client.meta()
        assert meta[META_CLIENT_INFO] == info


async def test_a_client_that_does_not_say_who_it_is_goes_under_our_name():
    server = scripted(DONE)
    async with running({"a": server}) as made:
        client = newer(made, stateless=False)
        meta = {k: v for k, v in client.meta().items() if k != META_CLIENT_INFO}
        await client.send("tools/call", json.dumps({"name": "a__do", "_meta": meta}).encode())
        assert server.metas[-1][1][META_CLIENT_INFO]["name"] == "pml"


class Steps:
    """Runs a workflow's tasks one after the other."""

    handles = frozenset({Workflow})

    def __init__(self, settings, services):
        pass

    async def execute(self, task, run):
        results = [(await run.dispatch(step)).output for step in task.tasks]
        return outcome(task.id, {"results": [dict(r) for r in results if r is not None]})


def workflow():
    made = types.ModuleType("made")
    tasks = tuple(ToolCall(id=name, tool=f"a:{name}", arguments={}) for name in ("do", "then"))
    tool = MetaTool(
        definition={"name": "both", "inputSchema": {"type": "object"}},
        task=lambda arguments: Workflow(id="", tasks=tasks),
    )
    made.pml_meta_tools = hookimpl(lambda services: [tool])
    return {("executor", "steps"): Steps, ("hooks", "made"): made}


@either_peer
@pytest.mark.parametrize("modern_client", [True, False])
async def test_a_server_that_asks_in_the_middle_of_a_workflow_is_answered(stateless, modern_client):
    server = scripted(asks("s-1", q=SURE), DONE, {"content": [], "n": 2})
    server.tools.append({"name": "then", "inputSchema": {"type": "object"}})
    async with running({"a": server}, plugins=workflow()) as made:
        if modern_client:
            client = newer(made, stateless)
            asked = await client.call("both")
            assert list(asked["inputRequests"].values()) == [SURE]
            assert asked["requestState"] != "s-1"
            result = await retry(client, asked, name="both")
        else:
            client, _ = await older(made, elicitation__create=YES)
            result = await client.call("both")
        assert [r["content"] for r in result["structuredContent"]["results"]] == [DONE["content"], []]
        assert [p.get("requestState") for p in server.params] == [None, "s-1", None]
        assert server.params[1]["inputResponses"] == {"q": YES}
        assert [name for name, _ in server.calls] == ["do", "do", "then"]
