from __future__ import annotations

import asyncio

import pytest

from pml_hookspecs import RawObject, RpcError
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio


def answering(**others):
    """A server with resources, prompts and whatever is given: ``method__name=result or function``."""
    server = ScriptedServer(["read"])
    server.offers = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "completions": {}, "logging": {}}

    def answer(value):
        async def fixed(params):
            return value(params) if callable(value) else value

        return fixed

    server.others = {method.replace("__", "/"): answer(value) for method, value in others.items()}
    return server


def resources(*uris):
    return {"resources": [{"uri": uri, "name": uri, "x-kept": [1]} for uri in uris]}


async def error_of(client, method, params):
    with pytest.raises(RpcError) as caught:
        await client.request(method, params)
    return caught.value


# Resources


async def test_the_resources_of_all_servers_are_one_list_with_everything_in_it():
    a, b = answering(resources__list=resources("file:///a")), answering(resources__list=resources("file:///b"))
    async with running({"a": a, "b": b}) as made:
        listed = (await Client(made).request("resources/list"))["resources"]
        assert [r["uri"] for r in listed] == ["file:///a", "file:///b", "pml://status"]
        assert listed[0]["x-kept"] == [1]


async def test_a_resource_is_read_from_the_server_that_has_it():
    contents = {"contents": [{"uri": "file:///b", "text": "b!", "_meta": {"k": 1}}], "x": 1.0}
    a, b = (
        answering(resources__list=resources("file:///a")),
        answering(resources__list=resources("file:///b"), resources__read=contents),
    )
    async with running({"a": a, "b": b}) as made:
        assert await Client(made).request("resources/read", {"uri": "file:///b", "_meta": {"y": 2}}) == contents
        assert b.asked[-1] == ("resources/read", {"uri": "file:///b", "_meta": {"y": 2}})
        assert not [m for m, _ in a.asked if m == "resources/read"]


async def test_of_two_resources_with_one_uri_both_can_be_read():
    a, b = (
        answering(resources__list=resources("note:x"), resources__read={"contents": [{"uri": "note:x", "text": n}]})
        for n in "ab"
    )
    async with running({"a": a, "b": b}) as made:
        client = Client(made)
        uris = [r["uri"] for r in (await client.request("resources/list"))["resources"]]
        assert uris == ["note:x", "pml://resource/b/note%3Ax", "pml://status"]
        for uri, text in (("note:x", "a"), ("pml://resource/b/note%3Ax", "b")):
            assert (await client.request("resources/read", {"uri": uri}))["contents"][0]["text"] == text


async def test_a_resource_that_only_a_template_knows_is_found():
    templates = {"resourceTemplates": [{"uriTemplate": "db://{table}/{+row}", "name": "row"}]}
    a = answering(resources__list=resources(), resources__templates__list=templates, resources__read={"contents": []})
    b = answering(resources__list=resources(), resources__read={"contents": [{"uri": "x", "text": "wrong"}]})
    async with running({"a": a, "b": b}) as made:
        assert (await Client(made).request("resources/read", {"uri": "db://users/7/name"})) == {"contents": []}
        error = await error_of(Client(made), "resources/read", {"uri": "other:nothing"})
        assert (error.code, error.data) == (-32002, {"uri": "other:nothing"})


async def test_a_server_that_cannot_list_never_hides_the_others(capsys):
    def fails(_params):
        raise RpcError(-32603, "not today")

    a, b = answering(resources__list=fails), answering(resources__list=resources("file:///b"))
    async with running({"a": a, "b": b}) as made:
        listed = (await Client(made).request("resources/list"))["resources"]
        assert [r["uri"] for r in listed] == ["file:///b", "pml://status"]
    assert "not today" in capsys.readouterr().err


async def test_lists_are_read_once_and_again_when_the_server_says_that_they_changed():
    server = answering(resources__list=lambda _params: resources("file:///old"))
    async with running({"a": server}) as made:
        client = Client(made)
        await client.initialize()
        for _ in range(3):
            await client.request("resources/list")
        assert [m for m, _ in server.asked].count("resources/list") == 1
        server.others["resources/list"] = answering(resources__list=resources("file:///new")).others["resources/list"]
        server.handler.notification("notifications/resources/list_changed", RawObject(b"{}"))
        listed = (await client.request("resources/list"))["resources"]
        assert listed[0]["uri"] == "file:///new"
        assert ("notifications/resources/list_changed", {}) in client.link.notified


async def test_pages_are_followed_and_a_list_that_failed_is_asked_for_again():
    state = {"fail": True}

    def pages(params):
        if state.pop("fail", False):
            raise RpcError(-32603, "busy")
        if params.get("cursor") is None:
            return {**resources("r:1"), "nextCursor": ""}
        return resources("r:2")

    async with running({"a": answering(resources__list=pages)}) as made:
        client = Client(made)
        with pytest.raises(RpcError, match="busy"):
            await client.request("resources/list")
        assert [r["uri"] for r in (await client.request("resources/list"))["resources"]][:2] == ["r:1", "r:2"]


async def test_updates_reach_those_who_subscribed_and_the_last_one_to_leave_ends_it():
    server = answering(resources__list=resources("r:1"), resources__subscribe={}, resources__unsubscribe={})
    async with running({"a": server}) as made:
        one, two = Client(made), Client(made)
        for client in (one, two):
            await client.initialize()
            await client.request("resources/subscribe", {"uri": "r:1"})
        await two.request("resources/unsubscribe", {"uri": "r:1"})
        assert "resources/unsubscribe" not in [m for m, _ in server.asked]
        server.handler.notification("notifications/resources/updated", RawObject(b'{"uri":"r:1","x":1}'))
        assert one.link.notified[-1] == ("notifications/resources/updated", {"uri": "r:1", "x": 1})
        assert not two.link.notified
        await one.request("resources/unsubscribe", {"uri": "r:1"})
        assert server.asked[-1] == ("resources/unsubscribe", {"uri": "r:1"})


async def test_a_server_that_takes_no_subscriptions_tells_everybody_of_changed_resources():
    server = answering(resources__list=resources("r:1"))
    server.offers = {"resources": {}}
    async with running({"a": server}) as made:
        client = Client(made)
        await client.initialize()
        server.tell("notifications/resources/updated", {"uri": "r:1"})
        assert client.link.notified == [("notifications/resources/updated", {"uri": "r:1"})]


async def test_what_a_server_tells_its_only_client_of_resources_reaches_it_subscribed_or_not():
    server = answering(resources__list=resources("r:1"), resources__subscribe={})
    async with running({"a": server}, one_client=True) as made:
        client = Client(made)
        await client.initialize()
        await client.request("resources/subscribe", {"uri": "r:1"})
        for uri in ("r:1", "r:2"):
            server.tell("notifications/resources/updated", {"uri": uri})
        assert [params["uri"] for _, params in client.link.notified] == ["r:1", "r:2"]


# Prompts, completion, logging


async def test_prompts_carry_their_servers_name_and_both_spellings_work():
    prompts = {"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]}
    answer = {"messages": [], "description": "d"}
    server = answering(prompts__list=prompts, prompts__get=answer)
    async with running({"a": server}) as made:
        client = Client(made)
        assert (await client.request("prompts/list"))["prompts"] == [
            {"name": "a__greet", "arguments": [{"name": "who"}]}
        ]
        for name in ("a__greet", "a:greet"):
            assert await client.request("prompts/get", {"name": name, "arguments": {"who": "x"}}) == answer
            assert server.asked[-1] == ("prompts/get", {"name": "greet", "arguments": {"who": "x"}})
        assert (await error_of(client, "prompts/get", {"name": "nope"})).code == -32602


async def test_completion_goes_to_the_server_of_the_prompt_or_the_template():
    found = {"completion": {"values": ["x"]}}
    templates = {"resourceTemplates": [{"uriTemplate": "db://{t}", "name": "t"}]}
    a = answering(prompts__list={"prompts": [{"name": "greet"}]}, completion__complete=found)
    b = answering(resources__list=resources(), resources__templates__list=templates, completion__complete=found)
    argument = {"name": "who", "value": "x"}
    async with running({"a": a, "b": b}) as made:
        client = Client(made)
        ref = {"type": "ref/prompt", "name": "a__greet"}
        assert await client.request("completion/complete", {"ref": ref, "argument": argument}) == found
        assert a.asked[-1][1]["ref"] == {"type": "ref/prompt", "name": "greet"}
        ref = {"type": "ref/resource", "uri": "db://{t}"}
        assert await client.request("completion/complete", {"ref": ref, "argument": argument}) == found
        assert b.asked[-1][1] == {"ref": ref, "argument": argument}
        assert (await error_of(client, "completion/complete", {"ref": {}})).code == -32602


async def test_log_messages_reach_the_client_from_the_level_it_set_on():
    server = answering(logging__setLevel={})
    async with running({"a": server}) as made:
        client = Client(made)
        await client.initialize()
        await client.request("logging/setLevel", {"level": "warning"})
        assert server.asked[-1] == ("logging/setLevel", {"level": "warning"})
        for level in ("info", "warning", "error"):
            server.handler.notification("notifications/message", RawObject(b'{"level":"%s"}' % level.encode()))
        assert [p["level"] for _, p in client.link.notified] == ["warning", "error"]
        assert (await error_of(client, "logging/setLevel", {"level": "loud"})).code == -32602


async def test_a_level_that_is_set_while_a_servers_lists_are_read_reaches_it():
    server, reading, go_on = answering(logging__setLevel={}), asyncio.Event(), asyncio.Event()
    async with running({"a": server}) as made:
        client, serve = Client(made), server.serve
        await client.initialize()

        async def slow(method, params):
            if method == "tools/list":
                reading.set()
                await go_on.wait()
            return await serve(method, params)

        server.serve = slow
        await made.server_pool.restart(["a"])
        await reading.wait()
        await client.request("logging/setLevel", {"level": "warning"})
        assert server.asked == []
        go_on.set()
        async with asyncio.timeout(60):
            while ("logging/setLevel", {"level": "warning"}) not in server.asked:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)


# What servers ask


def asking(method, params, told):
    """A server that asks its client while it answers a call."""
    server = ScriptedServer(["ask"])

    async def answer(name, arguments):
        try:
            told.append(await server.ask(method, params))
        except RpcError as error:
            told.append(error)
        return {"content": []}

    server.answer = answer
    return server


async def test_a_servers_question_reaches_the_client_whose_call_caused_it():
    told: list = []
    server = asking("elicitation/create", {"message": "sure?", "x-kept": 1}, told)
    async with running({"a": server}) as made:
        one, two = Client(made), Client(made)
        for client, name in ((one, "one"), (two, "two")):

            async def answer(params, name=name):
                assert params == {"message": "sure?", "x-kept": 1}
                return {"action": "accept", "content": {"by": name}}

            client.peer.others["elicitation/create"] = answer
            await client.initialize({"elicitation": {}})
        await two.call("a__ask")
        await one.call("a__ask")
        assert [t["content"]["by"] for t in told] == ["two", "one"]


async def test_a_question_is_refused_when_it_cannot_be_known_whose_it_is():
    told: list = []
    both = asyncio.Barrier(2)
    server = asking("sampling/createMessage", {}, told)
    asks = server.answer

    async def answer(name, arguments):
        await both.wait()
        return await asks(name, arguments)

    server.answer = answer
    async with running({"a": server}) as made:
        clients = [Client(made), Client(made)]
        for client in clients:
            await client.initialize({"sampling": {}})
        await asyncio.gather(*(client.call("a__ask") for client in clients))
        assert told[0].code == -31999
        assert "several clients" in told[0].message


async def test_a_question_that_the_client_cannot_answer_is_refused_with_the_reason():
    told: list = []
    async with running({"a": asking("roots/list", {}, told)}) as made:
        client = Client(made)
        await client.initialize({})
        await client.call("a__ask")
        assert (told[0].code, told[0].message) == (-32600, "List roots not supported")


async def test_servers_are_told_what_the_one_client_can_do():
    server = ScriptedServer(["read"])
    async with running({"a": server}, one_client=True) as made:
        client = Client(made)
        await client.initialize({"sampling": {"tools": {}}, "x-vendor": {"y": 1}})
        await made.servers_tried()
        assert server.hello["capabilities"] == {"sampling": {"tools": {}}, "x-vendor": {"y": 1}}


async def test_with_several_clients_servers_are_promised_nothing():
    server = ScriptedServer(["read"])
    async with running({"a": server}):
        assert server.hello["capabilities"] == {}


async def test_the_time_a_human_takes_does_not_count_against_the_call(frozen_clock):
    told: list = []
    async with running({"a": asking("elicitation/create", {}, told)}, call_timeout_s=20) as made:
        client = Client(made)

        async def slowly(_params):
            frozen_clock.advance(30)
            for _ in range(20):
                await asyncio.sleep(0)
            return {"action": "decline"}

        client.peer.others["elicitation/create"] = slowly
        await client.initialize({"elicitation": {}})
        assert await client.call("a__ask") == {"content": []}
        assert told == [{"action": "decline"}]


async def test_a_call_of_such_a_client_times_out_all_the_same():
    async def never(name, arguments):
        await asyncio.Event().wait()

    async with running({"a": ScriptedServer(["read"], never)}, call_timeout_s=0.05) as made:
        client = Client(made)
        await client.initialize({"elicitation": {}})
        result = await client.call("a__read")
        assert result["content"][0]["text"] == "server 'a' did not answer tools/call within 0.05 s"


async def test_roots_and_progress_of_the_client_reach_the_servers():
    told: list = []
    server = asking("sampling/createMessage", {"_meta": {"progressToken": "t1"}}, told)
    heard: list = []
    async with running({"a": server}) as made:
        server.link.notify = lambda method, params: heard.append((method, dict(params)))
        client = Client(made)

        async def answer(_params):
            client.notify("notifications/progress", {"progressToken": "t1", "progress": 1})
            client.notify("notifications/progress", {"progressToken": "other", "progress": 1})
            return {"role": "assistant"}

        client.peer.others["sampling/createMessage"] = answer
        await client.initialize({"sampling": {}})
        client.notify("notifications/roots/list_changed")
        await client.call("a__ask")
        assert heard == [
            ("notifications/roots/list_changed", {}),
            ("notifications/progress", {"progressToken": "t1", "progress": 1}),
        ]
