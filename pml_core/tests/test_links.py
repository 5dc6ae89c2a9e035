"""Two servers of the same make: a link leads back to the server that gave it."""

from __future__ import annotations

import pytest

from pml_catalog.addresses import alias, template_alias
from pml_testing.gateway import Client, running
from pml_testing.scripted import offering

pytestmark = pytest.mark.anyio
DYNAMIC, LISTED, TEMPLATE, PAGE = "demo://session/x.gz", "demo://doc/1", "demo://t/{id}", "ui://clock/face"


def twin(name, *, listed=(LISTED,), templates=(TEMPLATE,), eras=("legacy",), result=None):
    """A server that links to the same as its twin, and says in all that is read which of them it is."""
    made = offering(
        *listed,
        eras=eras,
        resources__templates__list={"resourceTemplates": [{"uriTemplate": t, "name": t} for t in templates]},
        resources__read=lambda params: {"contents": [{"uri": params["uri"], "text": f"{name} {params['uri']}"}]},
        completion__complete=lambda params: {"completion": {"values": [f"{name} {params['ref']['uri']}"]}},
    )
    made.tools = [
        {"name": "read", "inputSchema": {"type": "object"}, "_meta": {"ui": {"resourceUri": PAGE, "x": 1}, "k": 2}}
    ]
    links = [{"type": "resource_link", "uri": uri, "name": "x"} for uri in (DYNAMIC, LISTED, "demo://t/7")]
    links.append({"type": "resource", "resource": {"uri": LISTED, "text": "here"}})
    links.append({"type": "resource_link", "uri": "https://example.invalid/", "name": "web"})

    async def answer(_name, _arguments):
        return result or {"content": links, "_meta": {"ui": {"resourceUri": PAGE}}}

    made.answer = answer
    return made


def uris(result):
    return [one["uri"] if "uri" in one else one["resource"]["uri"] for one in result["content"]]


async def read(client, uri):
    return (await client.request("resources/read", {"uri": uri}))["contents"][0]["text"]


@pytest.mark.parametrize("modern", [False, True])
async def test_links_lead_back_and_are_those_of_the_lists(modern):
    async with running({"a": twin("a"), "b": twin("b")}) as made:
        client = Client(made, modern=modern, stateless=modern)
        if not modern:
            await client.initialize()
        listed = [one["uri"] for one in (await client.request("resources/list"))["resources"]]
        for name in ("a", "b"):
            result = await client.call(f"{name}__read")
            dynamic, doc, expanded, embedded, web = uris(result)
            assert doc == embedded
            assert doc in listed
            assert web == "https://example.invalid/"
            fresh = Client(made, modern=modern, stateless=modern)
            for uri, own in ((dynamic, DYNAMIC), (doc, LISTED), (expanded, "demo://t/7")):
                assert await read(fresh, uri) == f"{name} {own}"
            page = result["_meta"]["ui"]["resourceUri"]
            assert page.startswith("ui://")
            assert await read(fresh, page) == f"{name} {PAGE}"
        assert uris(await client.call("a__read"))[1:3] == [LISTED, "demo://t/7"]


async def test_where_nothing_is_the_same_nothing_is_changed():
    async with running({"a": twin("a"), "b": twin("b", listed=("other:1",), templates=())}) as made:
        assert uris(await Client(made).call("a__read"))[1:3] == [LISTED, "demo://t/7"]
    async with running({"a": twin("a")}) as made:
        assert uris(await Client(made).call("a__read"))[:3] == [DYNAMIC, LISTED, "demo://t/7"]


async def test_templates_and_completion_of_the_second_are_its_own():
    async with running({"a": twin("a"), "b": twin("b")}) as made:
        client = Client(made)
        listed = [one["uriTemplate"] for one in (await client.request("resources/templates/list"))["resourceTemplates"]]
        assert listed == [TEMPLATE, template_alias("b", TEMPLATE)]
        assert await read(client, listed[1].replace("{id}", "a%20b")) == "b demo://t/a%20b"
        ref = {"ref": {"type": "ref/resource", "uri": listed[1]}, "argument": {"name": "id", "value": ""}}
        values = (await client.request("completion/complete", ref))["completion"]["values"]
        assert values == [f"b {TEMPLATE}"]


async def test_a_change_is_told_of_the_server_that_tells_it():
    a, b = twin("a"), twin("b")
    async with running({"a": a, "b": b}) as made:
        client = Client(made)
        await client.initialize()
        for uri in (LISTED, alias("b", LISTED)):
            await client.request("resources/subscribe", {"uri": uri})
        b.tell("notifications/resources/updated", {"uri": LISTED})
        a.tell("notifications/resources/updated", {"uri": LISTED})
        told = [params["uri"] for method, params in client.link.notified if method.endswith("updated")]
        assert told == [alias("b", LISTED), LISTED]


async def test_what_another_gateway_calls_its_own_is_read_from_that_one():
    inner = twin("inner", listed=("pml://status", alias("b", LISTED)))
    async with running({"inner": inner, "b": twin("b")}) as made:
        client = Client(made)
        listed = [one["uri"] for one in (await client.request("resources/list"))["resources"]]
        assert len(set(listed)) == len(listed)
        for own in ("pml://status", alias("b", LISTED)):
            assert await read(client, alias("inner", own)) == f"inner {own}"
