from __future__ import annotations

import base64

import pytest

from pml_catalog.paging import page, servers_page
from pml_hookspecs import Origin, Peer, RawObject, RpcError
from pml_settings.config import ServerSettings
from pml_testing.downstream import Connections, Everything, connected
from pml_testing.gateway import Client, ScriptedLink, ScriptedServer, running

pytestmark = pytest.mark.anyio
ITEMS = [f"item {n}" for n in range(7)]


def walk(items, size, **options):
    """All pages, as whoever follows the cursors gets them."""
    pages, cursor = [], None
    while True:
        shown, cursor = page(items, cursor, size, **options)
        pages.append(list(shown))
        if cursor is None:
            return pages
        assert len(pages) <= len(items)


@pytest.mark.parametrize("size", range(1, 9))
def test_pages_are_the_list_in_order_and_none_is_empty(size):
    pages = walk(ITEMS, size)
    assert [item for one in pages for item in one] == ITEMS
    assert {len(one) for one in pages[:-1]} <= {size}
    assert 0 < len(pages[-1]) <= size


@pytest.mark.parametrize("items", [[], ITEMS])
def test_without_a_page_size_everything_is_one_page(items):
    assert walk(items, 0) == [items]


def test_a_cursor_is_opaque_and_the_same_every_time():
    one, other = (page(ITEMS, None, 3)[1] for _ in range(2))
    assert one == other
    assert not any(telling in one for telling in (":", "item"))


def forged(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "cursor", ["", "x", "é", 5, 0, True, [], {}, "====", forged("m:3"), forged("mark:x"), forged("mark:-2"),
               forged("mark:0"), forged("mark:7"), forged("mark:99999"), forged(":3"), forged("3")]
)  # fmt: skip
def test_what_is_no_cursor_of_this_list_is_refused_with_advice(cursor):
    with pytest.raises(RpcError) as caught:
        page(ITEMS, cursor, 3, "mark")
    assert caught.value.code == -32602
    assert "begin again without a cursor" in caught.value.message


def test_a_cursor_of_a_list_that_has_changed_is_refused():
    _, cursor = page(ITEMS, None, 3)
    assert page(ITEMS, cursor, 3)[0] == ITEMS[3:6]
    for changed in (ITEMS[:-1], [*ITEMS, "more"], [*ITEMS[1:], ITEMS[0]]):
        with pytest.raises(RpcError, match="the list has changed"):
            page(changed, cursor, 3)


# Of clients


def featured() -> ScriptedServer:
    server = ScriptedServer([f"t{n}" for n in range(5)])
    server.offers = {"tools": {}, "resources": {}, "prompts": {}}
    lists = {
        "resources/list": {"resources": [{"uri": f"r:{n}", "name": str(n)} for n in range(4)]},
        "resources/templates/list": {
            "resourceTemplates": [{"uriTemplate": f"t:{n}/{{x}}", "name": str(n)} for n in range(3)]
        },
        "prompts/list": {"prompts": [{"name": f"p{n}"} for n in range(5)]},
    }
    for method, answer in lists.items():

        async def give(_params, answer=answer):
            return answer

        server.others[method] = give
    return server


def paged(server: ScriptedServer, **gateway):
    return running({"fs": server}, plugins={("exposure_mode", "all"): Everything}, tools_exposure="all", **gateway)


LISTS = [
    ("tools/list", "tools", "name", [f"fs__t{n}" for n in range(5)]),
    ("resources/list", "resources", "uri", [*(f"r:{n}" for n in range(4)), "pml://status"]),
    ("resources/templates/list", "resourceTemplates", "uriTemplate", [f"t:{n}/{{x}}" for n in range(3)]),
    ("prompts/list", "prompts", "name", [f"fs__p{n}" for n in range(5)]),
]


@pytest.mark.parametrize(("method", "member", "key", "wanted"), LISTS)
@pytest.mark.parametrize("size", [0, 1, 2, 100])
async def test_every_list_comes_in_pages(method, member, key, wanted, size):
    async with paged(featured(), page_size=size) as made:
        client, found, cursor, pages = Client(made), [], None, 0
        while pages == 0 or cursor is not None:
            answer = await client.request(method, {} if cursor is None else {"cursor": cursor})
            found += [item[key] for item in answer[member]]
            cursor, pages = answer.get("nextCursor"), pages + 1
        assert found == wanted
        assert pages == (-(-len(wanted) // size) if size else 1)


@pytest.mark.parametrize(("method", "member", "key", "wanted"), LISTS)
async def test_the_same_page_is_the_same_bytes(method, member, key, wanted):
    async with paged(featured(), page_size=2) as made:
        link = ScriptedLink(ScriptedServer())

        async def raw(handler, params: bytes) -> bytes:
            return RawObject.of(await handler.request(method, RawObject(params), Origin(1, link))).raw

        one, other = (made.accept(link, Peer(address="t")) for _ in range(2))
        first = await raw(one, b"{}")
        assert await raw(one, b"{}") == await raw(other, b"{}") == first
        second = b'{"cursor":"%s"}' % RawObject(first).value["nextCursor"].encode()
        assert await raw(one, second) == await raw(other, second) != first


@pytest.mark.parametrize(("method", "member", "key", "wanted"), LISTS)
@pytest.mark.parametrize("size", [0, 2])
async def test_a_foreign_cursor_is_refused_whatever_the_page_size(method, member, key, wanted, size):
    async with paged(featured(), page_size=size) as made:
        with pytest.raises(RpcError) as caught:
            await Client(made).request(method, {"cursor": "elsewhere"})
        assert caught.value.code == -32602
        assert "begin again without a cursor" in caught.value.message


async def test_a_cursor_of_tools_is_stale_when_the_tools_have_changed_and_not_for_other_reasons():
    transport = Connections({"fs": featured})
    async with connected(transport, {"fs": ServerSettings(address="scripted:fs")}, page_size=2) as made:
        client = Client(made)
        cursor = (await client.request("tools/list"))["nextCursor"]
        assert len((await client.request("tools/list", {"cursor": cursor}))["tools"]) == 2
        made.catalog.publish("fs", [e for e in made.catalog if e.name != "t4"])
        with pytest.raises(RpcError, match="the list has changed"):
            await client.request("tools/list", {"cursor": cursor})


ENDS = (("b", 2), ("", 2), ("c", 5))


def test_pages_of_a_server_are_served_under_its_cursors_and_what_is_behind_them_is_on_the_last():
    pages = {cursor: servers_page(ITEMS, cursor, ENDS) for cursor in (None, "b", "", "c")}
    assert pages == {None: (ITEMS[:2], "b"), "b": ([], ""), "": (ITEMS[2:5], "c"), "c": (ITEMS[5:], None)}


@pytest.mark.parametrize("cursor", ["x", 5, [], {}])
def test_what_is_no_cursor_of_a_servers_pages_is_refused(cursor):
    with pytest.raises(RpcError) as caught:
        servers_page(ITEMS, cursor, ENDS)
    assert caught.value.code == -32602
