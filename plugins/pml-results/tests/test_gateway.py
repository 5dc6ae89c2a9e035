"""Answers of a gateway, with the plugin in it."""

from __future__ import annotations

import json

import pytest

from pml_hookspecs import ExecutionQuery, Offer, RpcError, Scope, hookimpl
from pml_kit.offers import ANSWERS
from pml_results import plugin
from pml_results.definition import META
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
ROWS = [{"id": i, "name": f"name {i}"} for i in range(3000)]


async def rows(name, arguments):
    return {"content": [{"type": "text", "text": json.dumps(ROWS)}]}


def gateway(*, plugins=None, **settings):
    return running(
        {"db": ScriptedServer(["rows"], rows)},
        plugins={("hooks", "results"): plugin, **(plugins or {})},
        tables={"results": {"unbounded_modes": (), "budget_tokens": 500, **settings}},
    )


@pytest.mark.parametrize("modern", [False, True])
async def test_a_client_gets_a_preview_and_history_all_of_it(modern):
    async with gateway() as started:
        client = Client(started, modern=modern)
        if not modern:
            await client.initialize()
        answer = await client.call("db__rows")
        assert len(json.dumps(answer)) < 5000
        read = {"id": answer["_meta"][META]["id"], "select": "[2999].name"}
        assert (await client.call("read_result", read))["content"][0]["text"] == "name 2999"
        assert "read_result" not in await client.tools()
        found = await started.store.executions.find(ExecutionQuery(scope=Scope(principals=None)))
        (record,) = [record for record in found.items if record.target == "db:rows"]
        assert "read_result" not in str(record.response)


async def test_another_principal_reads_nothing():
    async with gateway() as started:
        alice, bob = Client(started, modern=True, principal="alice"), Client(started, modern=True, principal="bob")
        id = (await alice.call("db__rows"))["_meta"][META]["id"]
        assert (await bob.call("read_result", {"id": id, "page": 1}))["isError"] is True
        assert "isError" not in await alice.call("read_result", {"id": id, "page": 1})


async def test_the_tool_is_listed_where_that_is_asked_for():
    async with gateway(listed=True) as started:
        assert "read_result" in await Client(started, modern=True).tools()


async def test_a_filter_that_fails_leaves_the_answer_as_it_came():
    async def fail(answer, task, session):
        raise ValueError("no")

    class Failing:
        @staticmethod
        @hookimpl
        def pml_offers(services):
            return [Offer(ANSWERS, fail)]

    async with gateway(plugins={("hooks", "failing"): Failing}, budget_tokens=0) as started:
        answer = await Client(started, modern=True).call("db__rows")
        assert json.loads(answer["content"][0]["text"]) == ROWS


@pytest.mark.parametrize("modern", [False, True])
async def test_its_owner_reads_it_as_a_resource(modern):
    async with gateway() as started:
        alice, bob = (Client(started, modern=modern, principal=name) for name in ("alice", "bob"))
        for client in (alice, bob) if not modern else ():
            await client.initialize()
        before = await alice.request("resources/templates/list")
        answer = await alice.call("db__rows")
        text, link = answer["content"]
        assert link["uri"] == f"pml://results/{answer['_meta'][META]['id']}"
        assert (link["type"], link["mimeType"], link["size"]) == (
            "resource_link",
            "application/json",
            len(str_of(ROWS)),
        )
        assert link["name"] in text["text"]
        (content,) = (await alice.request("resources/read", {"uri": link["uri"]}))["contents"]
        assert (content["uri"], json.loads(content["text"])) == (link["uri"], ROWS)
        for client, uri in ((bob, link["uri"]), (alice, "pml://results/r_nothing"), (alice, "pml://results/")):
            with pytest.raises(RpcError, match=f"^Resource not found: {uri}$"):
                await client.request("resources/read", {"uri": uri})
        assert await alice.request("resources/templates/list") == before
        assert [one["uriTemplate"] for one in before["resourceTemplates"]] == ["pml://results/{id}"]
        assert "stored_result" not in await alice.tools()


def str_of(value):
    return json.dumps(value)


async def test_clients_that_know_no_links_have_the_text_alone():
    async with gateway() as started:
        client = Client(started)
        await client.initialize(protocol="2025-03-26")
        answer = await client.call("db__rows")
        assert [block["type"] for block in answer["content"]] == ["text"]
        assert answer["_meta"][META]["id"] in answer["content"][0]["text"]


async def test_without_the_plugin_nothing_is_listed():
    async with running({"db": ScriptedServer(["rows"], rows)}) as started:
        assert (await Client(started, modern=True).request("resources/templates/list"))["resourceTemplates"] == []
