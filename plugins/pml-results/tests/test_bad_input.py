"""What nobody should do, does not happen, or fails: each says so, and nothing is lost or shown by it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from pml_hookspecs import Document, RpcError
from pml_results import plugin, storage
from pml_results.definition import META
from pml_results.settings import Settings
from pml_testing.gateway import Client, ScriptedServer, running

pytestmark = pytest.mark.anyio
ROWS = [{"id": i, "name": f"name {i}"} for i in range(3000)]
BINARY = "".join(map(chr, range(256))) * 100 + "\ud800\x00\x1b[2J\u202e"


class Server:
    """Answers more rows each time, or whatever a test says."""

    def __init__(self, text=None):
        self.text, self.calls = text, 0

    async def __call__(self, name, arguments):
        self.calls += 1
        text = json.dumps(ROWS * self.calls) if self.text is None else self.text
        return {"content": [{"type": "text", "text": text}]}


def gateway(server=None, **settings):
    return running(
        {"db": ScriptedServer(["rows"], server or Server())},
        plugins={("hooks", "results"): plugin},
        tables={"results": {"unbounded_modes": (), "budget_tokens": 500, **settings}},
    )


def text_of(answer):
    return answer["content"][0]["text"]


def id_of(answer):
    return answer["_meta"][META]["id"]


async def refused(client, **asked):
    answer = await client.call("read_result", asked)
    assert answer["isError"] is True
    return text_of(answer)


@pytest.mark.parametrize("select", ["[", "nope(@)", "abs(@)", "[*].abs(name)", "sum([*].name)"])
async def test_an_expression_that_fails(select):
    async with gateway() as started:
        client = Client(started, modern=True)
        id = id_of(await client.call("db__rows"))
        said = await refused(client, id=id, select=select)
        assert said.startswith("select: ")
        assert "\n" not in said
        assert text_of(await client.call("read_result", {"id": id, "select": "[0].id"})) == "0"


class Past(datetime):
    """What is stored now has expired."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(UTC) - timedelta(days=3)


@pytest.mark.parametrize("case", ["another's", "expired", "unknown", "no id at all", "no id that could be one"])
async def test_a_handle_that_is_not_there_for_the_caller(case, monkeypatch):
    """The same words for each, so that nobody learns of what is there for others."""
    async with gateway() as started:
        ada, bob = (Client(started, modern=True, principal=name) for name in ("ada", "bob"))
        if case == "expired":
            monkeypatch.setattr(storage, "datetime", Past)
        given = {"unknown": "r_nothing", "no id at all": "", "no id that could be one": "../" * 5000}
        id = given.get(case) or (
            "" if case in given else id_of(await (bob if "other" in case else ada).call("db__rows"))
        )
        said = await refused(ada, id=id)
        assert said == f"there is no stored result {id[:80]!r} (any more); call the tool again"
        with pytest.raises(RpcError, match="Resource not found"):
            await ada.request("resources/read", {"uri": f"pml://results/{id[:200]}"})


async def test_a_page_past_the_end():
    async with gateway() as started:
        client = Client(started, modern=True)
        id = id_of(await client.call("db__rows"))
        pages = int(
            text_of(await client.call("read_result", {"id": id})).split(" of ")[1].split(":")[0].replace(",", "")
        )
        assert f"Page {pages:,} of {pages:,}" in text_of(await client.call("read_result", {"id": id, "page": pages}))
        for page in (pages + 1, 10**12):
            assert await refused(client, id=id, page=page) == f"page {page}: there are {pages:,} pages"
        for page in (0, -1):
            assert str(page) in await refused(client, id=id, page=page)


class FullStore:
    """Takes so many documents, and no more."""

    def __init__(self, documents, room):
        self._documents, self.room = documents, room

    def __getattr__(self, name):
        return getattr(self._documents, name)

    async def put(self, *given, **more) -> Document:
        self.room -= 1
        if self.room < 0:
            raise OSError("database or disk is full")
        return await self._documents.put(*given, **more)


@pytest.mark.parametrize("room", [0, 1, 2])
async def test_a_store_that_is_full(room, monkeypatch):
    """The answer comes whole, and nothing of it stays in the store."""
    text = "a line\n" * (storage.PART // 4)
    async with gateway(Server(text)) as started:
        client = Client(started, modern=True)
        documents = started.store.documents
        monkeypatch.setattr(started.store, "documents", FullStore(documents, room))
        answer = await client.call("db__rows")
        assert (text_of(answer), answer.get("_meta", {}).get(META)) == (text, None)
        assert not [*(await documents.find("results.parts")).items, *(await documents.find("results.stored")).items]


async def test_what_is_larger_than_all_that_may_be_kept():
    async with gateway(keep_bytes=1000) as started:
        assert json.loads(text_of(await Client(started, modern=True).call("db__rows"))) == ROWS


@pytest.mark.parametrize("settings", [{"budget_tokens": 0}, {"tools": {"db:*": 0}}, {"servers": {"db": 0}}])
async def test_a_budget_of_nothing_is_none(settings):
    async with gateway(**settings) as started:
        assert json.loads(text_of(await Client(started, modern=True).call("db__rows"))) == ROWS


def test_a_budget_below_nothing_is_refused():
    with pytest.raises(ValueError, match=r"tools\.db:\* is -1; it must be 0 \(no budget\) or more"):
        Settings(tools={"db:*": -1})


@pytest.mark.parametrize(
    "text", [BINARY, json.dumps({"blob": BINARY}), json.dumps({"blob": BINARY}, ensure_ascii=False)]
)
async def test_binary_in_text(text):
    async with gateway(Server(text)) as started:
        client = Client(started, modern=True)
        answer = await client.call("db__rows")
        id = id_of(answer)
        answer["content"][0]["text"].encode(errors="surrogatepass")
        read = await client.request("resources/read", {"uri": f"pml://results/{id}"})
        assert read["contents"][0]["text"] == text
        pages, more = "", {"page": 1}
        while more:
            page = text_of(await client.call("read_result", {"id": id, **more}))
            head, _, part = page.partition(":\n") if page.startswith("Page ") else ("Page 1 of 1", "", page)
            number, count = (int(one.replace(",", "")) for one in head.removeprefix("Page ").split(" of "))
            pages, more = pages + part, {"page": number + 1} if number < count else {}
        assert "\x1b[2J" in pages or "\\u001b[2J" in pages


async def test_a_result_that_grows_while_it_is_read():
    """What is read stays what it was; the next call's has a handle of its own."""
    async with gateway() as started:
        client = Client(started, modern=True)
        first = id_of(await client.call("db__rows"))
        before = text_of(await client.call("read_result", {"id": first, "page": 1}))
        second = id_of(await client.call("db__rows"))
        assert text_of(await client.call("read_result", {"id": first, "page": 1})) == before
        counts = [
            text_of(await client.call("read_result", {"id": id, "select": "length(@)"})) for id in (first, second)
        ]
        assert counts == ["3000", "6000"]


async def test_a_result_that_goes_while_it_is_read():
    """Others that are stored meanwhile may take its room."""
    text = "a line\n" * storage.PART
    async with gateway(Server(text)) as started:
        client, documents = Client(started, modern=True), started.store.documents
        id = id_of(await client.call("db__rows"))
        last = max(one.key for one in (await documents.find("results.parts", limit=1000)).items)
        await documents.delete("results.parts", last)
        assert await refused(client, id=id, page=1) == f"the stored result {id!r} is gone; call the tool again"
        with pytest.raises(RpcError, match="Resource not found"):
            await client.request("resources/read", {"uri": f"pml://results/{id}"})
