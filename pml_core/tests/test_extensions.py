from __future__ import annotations

from typing import Any

import pytest

from pml_hookspecs import RpcError
from pml_mcp.servers import extensions
from pml_settings.config import ServerSettings
from pml_testing.downstream import Connections, connected, moving_clock, state, until
from pml_testing.gateway import Client, ScriptedServer

pytestmark = pytest.mark.anyio


class Answering(ScriptedServer):
    """Knows every method, and gives out the task ``id`` for a call."""

    def __init__(self, capabilities: dict[str, Any] | None = None, task: str = "") -> None:
        super().__init__(["work"], self._work)
        self.offers = {"tools": {}, **(capabilities or {})}
        self.task = task

    async def _work(self, name, arguments):
        return {"task": {"taskId": self.task, "status": "working"}} if self.task else {"content": []}

    async def serve(self, method, params):
        if method in ("initialize", "tools/list", "tools/call"):
            return await super().serve(method, params)
        self.asked.append((method, params))
        return {"done": method}


def gateway(servers: dict[str, ScriptedServer], disabled=(), methods=("*",), **settings):
    transport = Connections({name: lambda server=server: server for name, server in servers.items()})
    tables = {
        name: ServerSettings(address=f"scripted:{name}", enabled=name not in disabled, methods=methods, **settings)
        for name in servers
    }
    return connected(transport, tables)


async def refused(made, method, params=None, code=-32601, **client) -> str:
    with pytest.raises(RpcError) as caught:
        await Client(made, **client).request(method, params or {})
    assert caught.value.code == code
    return caught.value.message


# What clients are told


async def test_clients_are_told_what_all_servers_declare_together():
    a = Answering({"extensions": {"io.x/ui": {"a": 1}, "both": {"by": "a"}}, "tasks": {"list": {}}})
    b = Answering({"extensions": {"io.y/z": {}, "both": {"by": "b"}}, "experimental": {"q": {}}, "other": {}})
    async with gateway({"b": b, "a": a}) as made:
        told = (await Client(made).initialize())["capabilities"]
        assert told["extensions"] == {"io.x/ui": {"a": 1}, "io.y/z": {}, "both": {"by": "a"}}
        assert (told["tasks"], told["experimental"]) == ({"list": {}}, {"q": {}})
        assert "other" not in told
        assert told["tools"] == {"listChanged": True}


async def test_servers_that_are_down_declare_nothing_and_those_that_sleep_do(monkeypatch, quick):
    servers = {"a": Answering({"extensions": {"io.x/ui": {}}}), "b": Answering({"experimental": {"q": {}}})}
    async with gateway(servers, idle_timeout_s=30) as made:
        advance = moving_clock(monkeypatch)
        advance(31)
        await until(lambda: state(made, "a").state == state(made, "b").state == "idle")
        told = (await Client(made).initialize())["capabilities"]
        assert ("extensions" in told, "experimental" in told) == (True, True)
        servers["b"].refuse = "gone"
        await Client(made).call("b__work")
        told = (await Client(made).initialize())["capabilities"]
        assert ("extensions" in told, "experimental" in told) == (True, False)


# Where unknown methods go


async def test_a_method_is_for_the_server_that_gave_out_the_task():
    a, b = Answering({"tasks": {}}, task="t-a"), Answering({"tasks": {}}, task="t-b")
    async with gateway({"a": a, "b": b}) as made:
        client = Client(made)
        await client.call("a__work")
        await client.call("b__work")
        for task, server in (("t-b", b), ("t-a", a)):
            params = {"taskId": task, "x-kept": [1.0]}
            assert await client.request("tasks/get", params) == {"done": "tasks/get"}
            assert server.asked[-1] == ("tasks/get", params)
        assert (len(a.asked), len(b.asked)) == (1, 1)
        assert "it may be for a, b" in await refused(made, "tasks/get", {"taskId": "unknown"})
        assert "it may be for a, b" in await refused(made, "tasks/list")


async def test_a_task_learned_from_another_methods_result_is_known_too():
    a, b = Answering({"tasks": {}, "extensions": {"v/jobs": {}}}), Answering({"tasks": {}})

    async def serve(method, params):
        if method == "jobs/start":
            return {"resultType": "task", "taskId": "t-1"}
        return await Answering.serve(a, method, params)

    a.serve = serve
    async with gateway({"a": a, "b": b}) as made:
        client = Client(made)
        await client.request("jobs/start")
        await client.request("tasks/cancel", {"taskId": "t-1"})
        assert a.asked == [("tasks/cancel", {"taskId": "t-1"})]


async def test_a_task_id_that_two_servers_thought_of_is_refused_and_not_guessed():
    a, b = Answering({"tasks": {}}, task="1"), Answering({"tasks": {}}, task="1")
    async with gateway({"a": a, "b": b, "c": Answering()}) as made:
        client = Client(made)
        await client.call("a__work")
        await client.call("b__work")
        assert await refused(made, "tasks/get", {"taskId": "1"}) == (
            "Method not found: tasks/get (it may be for a, b: which cannot be known)"
        )


@pytest.mark.parametrize("task", [None, 5, [], {}, True])
async def test_a_task_id_that_is_no_text_is_nobodys(task):
    a, b = Answering(task="None"), Answering()
    async with gateway({"a": a, "b": b}) as made:
        await Client(made).call("a__work")
        assert await refused(made, "tasks/get", {"taskId": task}, -32602 if task is not None else -32601)


async def test_only_the_newest_tasks_are_kept(monkeypatch):
    monkeypatch.setattr(extensions, "REMEMBERED", 2)
    a, b = Answering(task="t-1"), Answering()
    async with gateway({"a": a, "b": b}) as made:
        client = Client(made)
        for task in ("t-1", "t-2", "t-1", "t-3"):
            a.task = task
            await client.call("a__work")
        for task in ("t-1", "t-3"):
            assert await client.request("tasks/get", {"taskId": task})
        assert "methods" in await refused(made, "tasks/get", {"taskId": "t-2"})


@pytest.mark.parametrize(
    ("capabilities", "method"),
    [
        ({"extensions": {"io.vendor/ui": {}}}, "ui/open"),
        ({"extensions": {"io.vendor/ui": {}}}, "io.vendor/ui/open"),
        ({"extensions": {"ui": {}}}, "ui/open"),
        ({"experimental": {"io.vendor/ui": {}}}, "ui/open"),
        ({"tasks": {"list": {}}}, "tasks/list"),
        ({"extensions": {"io.vendor/ui": {}, "more": {}}}, "ui"),
    ],
)
async def test_a_method_is_for_the_server_that_declares_something_of_its_name(capabilities, method):
    a, b = Answering({"extensions": {"io.vendor/other": {}}, "experimental": {"x": {}}}), Answering(capabilities)
    async with gateway({"a": a, "b": b}) as made:
        assert await Client(made).request(method, {"p": 1}) == {"done": method}
        assert (a.asked, b.asked) == ([], [(method, {"p": 1})])


@pytest.mark.parametrize("value", [None, 5, True, ["io.vendor/ui"], "io.vendor/ui"])
async def test_capabilities_of_the_wrong_shape_declare_nothing(value):
    a, b = Answering({"extensions": value, "tasks": value}), Answering()
    async with gateway({"a": a, "b": b}) as made:
        assert "it may be for a, b" in await refused(made, "ui/open")
        assert not {"extensions", "tasks"} & set((await Client(made).initialize())["capabilities"])


async def test_a_method_that_several_declare_is_refused_with_their_names():
    servers = {name: Answering({"extensions": {"io.vendor/ui": {}}}) for name in "abc"}
    async with gateway({**servers, "d": Answering()}) as made:
        message = await refused(made, "ui/open")
        assert message == "Method not found: ui/open (it may be for a, b, c: which cannot be known)"


@pytest.mark.attack("One way through means all of MCP", "have a method that nobody knows run on a server")
async def test_a_method_that_no_section_allows_reaches_no_server():
    a, b = Answering({"extensions": {"io.vendor/ui": {}}, "tasks": {}}), Answering()
    async with gateway({"a": a}, methods=("vendor/*", "ui/shown")) as made:
        assert await refused(made, "ui/open") == "Method not found: ui/open (no server's section allows it: methods)"
        assert await refused(made, "ui/open", principal="bob") == "Method not found: ui/open"
        assert await Client(made).request("vendor/x") == {"done": "vendor/x"}
    async with gateway({"b": b}, methods=()) as made:
        assert await refused(made, "nonsense")
    assert (a.asked, b.asked) == ([("vendor/x", {})], [])


@pytest.mark.attack("One way through means all of MCP", "read, list and cancel a task of somebody else's by its id")
async def test_a_task_is_of_whom_it_was_given_to():
    a = Answering({"tasks": {"list": {}}}, task="t-1")
    listed = [{"taskId": "t-1"}, {"taskId": "t-2"}, {"taskId": "t-3"}]

    async def serve(method, params):
        if method == "tasks/list":
            return {"tasks": listed}
        return await Answering.serve(a, method, params)

    a.serve = serve
    async with gateway({"a": a}) as made:
        alice, bob = Client(made, principal="alice"), Client(made, principal="bob")
        await alice.call("a__work")
        a.task = "t-2"
        await bob.call("a__work")
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            for id in ("t-1", "t-3", "never"):
                assert (
                    await refused(made, method, {"taskId": id}, -32602, principal="bob") == f"There is no task {id!r}"
                )
            assert await alice.request(method, {"taskId": "t-1"}) == {"done": method}
        assert [params["taskId"] for _, params in a.asked] == ["t-1"] * 3
        assert (await alice.request("tasks/list"))["tasks"] == listed[:1]
        assert (await bob.request("tasks/list"))["tasks"] == listed[1:2]


async def test_the_only_server_gets_what_nobody_declares():
    a = Answering()
    async with gateway({"a": a, "off": Answering({"extensions": {"v/other": {}}})}, disabled=("off",)) as made:
        assert await Client(made).request("other/thing") == {"done": "other/thing"}
        assert a.asked == [("other/thing", {})]


async def test_without_any_server_there_is_nobody_to_ask():
    async with gateway({}) as made:
        assert await refused(made, "other/thing") == "Method not found: other/thing"


async def test_what_such_a_server_answers_reaches_the_client_as_it_is():
    a = Answering()

    async def serve(method, params):
        if method == "other/thing":
            raise RpcError(-32042, "visit this", {"elicitations": [{"url": "https://x"}]})
        return await Answering.serve(a, method, params)

    a.serve = serve
    async with gateway({"a": a}) as made:
        with pytest.raises(RpcError) as caught:
            await Client(made).request("other/thing")
        assert parts_of(caught.value) == (-32042, "visit this", {"elicitations": [{"url": "https://x"}]})


def parts_of(error: RpcError):
    return error.code, error.message, error.data


@pytest.mark.attack("One way through means all of MCP", "push the tasks of others out of the gateway's memory")
async def test_tasks_of_one_principal_make_no_way_for_those_of_another(monkeypatch):
    monkeypatch.setattr(extensions, "REMEMBERED", 2)
    a = Answering({"tasks": {}}, task="of-alice")
    async with gateway({"a": a}) as made:
        alice, mallory = Client(made, principal="alice"), Client(made, principal="mallory")
        await alice.call("a__work")
        for number in range(5):
            a.task = f"t-{number}"
            await mallory.call("a__work")
        assert await alice.request("tasks/get", {"taskId": "of-alice"}) == {"done": "tasks/get"}
        assert await refused(made, "tasks/get", {"taskId": "t-0"}, -32602, principal="mallory")
        assert await mallory.request("tasks/get", {"taskId": "t-4"}) == {"done": "tasks/get"}
