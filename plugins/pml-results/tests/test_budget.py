"""Answers against their budgets, with a real store."""

from __future__ import annotations

import json
import re
import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest

from pml_hookspecs import InvalidArguments, Session, ToolCall
from pml_kit.mcp.tokens import estimate
from pml_kit.offers import INDIRECT_CALLS
from pml_results import storage as stored_module
from pml_results.definition import META
from pml_results.filter import ResultBudget
from pml_results.settings import Settings
from pml_results.storage import StoredResults
from pml_results.tool import ReadResult
from pml_store_sqlite import Settings as StoreSettings
from pml_store_sqlite import SqliteStore
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, entry

pytestmark = pytest.mark.anyio
ALICE = Session(key="a", principal="alice", mode="hybrid")
BOB = Session(key="b", principal="bob", mode="hybrid")
ROWS = [{"id": i, "name": f"name {i}"} for i in range(2000)]


def texts(*parts, **members):
    return {"content": [{"type": "text", "text": part} for part in parts], **members}


class Results:
    """The plugin's parts over a store in a file."""

    def __init__(self, store, **settings):
        self.settings = Settings(**{"budget_tokens": 500, **settings})
        catalog = FakeCatalog([entry("db:rows"), entry("db:typed", outputSchema={"type": "object"})])
        self.services = FakeServices("results", store=store, catalog=catalog)
        self.services.offer(INDIRECT_CALLS, lambda session, effects: "call_tool")
        limits = {"keep_hours": self.settings.keep_hours, "keep_bytes": self.settings.keep_bytes}
        self.stored = StoredResults(store.documents, self.services.redact, catalog, **limits)
        self.budget = ResultBudget(self.services, self.settings, lambda: self.stored)
        self.tool = ReadResult(self.services, self.settings, self.stored)

    async def answer(self, answer, tool="db:rows", session=ALICE):
        return await self.budget(answer, ToolCall(id="call", tool=tool), session)

    async def read(self, session=ALICE, **asked):
        return await self.tool(asked, FakeRun(session=session))


@pytest.fixture
async def store(tmp_path):
    async with SqliteStore(StoreSettings(path=str(tmp_path / "pml.db")), FakeServices()) as store:
        yield store


def handle(answer):
    return answer["_meta"][META]["id"]


async def test_what_fits_is_answered_as_it_came(store):
    results = Results(store)
    for answer in (
        texts("short"),
        texts(),
        {"content": [], "isError": True},
        texts("a", "b", structuredContent={"a": 1}),
    ):
        assert await results.answer(answer) is answer
    assert not (await store.documents.find("results.stored")).items


async def test_what_does_not_fit_is_stored_and_read_back_in_parts(store):
    results = Results(store)
    answer = await results.answer(texts(json.dumps({"rows": ROWS})))
    (block,) = answer["content"]
    assert estimate(block["text"]) < 2 * 500
    assert "{rows: {id: int, name: str}[2000]}" in block["text"]
    id = handle(answer)
    assert await results.read(id=id, path="rows[7].name") == "name 7"
    assert json.loads(await results.read(id=id, select="rows[?id == `1999`]")) == [ROWS[1999]]
    assert json.loads(await results.read(id=id, select="length(rows)")) == 2000
    assert "name 1234" in await results.read(id=id, search="1234")


async def test_the_call_that_a_preview_shows_works_as_it_stands(store):
    results = Results(store)
    for answer, part in ((texts("line\n" * 5000), {}), (texts(json.dumps(ROWS)), {"select": "[0].name"})):
        text = (await results.answer(answer))["content"][0]["text"]
        shown = json.loads(re.search(r"call_tool (\{.*?\}\})", text)[1])
        assert shown["name"] == "read_result"
        assert await results.read(**{**shown["arguments"], **part})


@pytest.mark.parametrize("long", [texts("line\n" * 5000), texts(json.dumps(ROWS))], ids=["text", "json"])
async def test_a_preview_names_the_tool_by_which_its_client_calls_others(store, long):
    results = Results(store)
    results.services.offer(INDIRECT_CALLS, lambda session, effects: f"{session.principal}_calls_{effects}")
    for session in (ALICE, BOB):
        text, by = (
            (await results.answer(long, session=session))["content"][0]["text"],
            f"{session.principal}_calls_read",
        )
        assert f'{by} {{"name": "read_result", "arguments": {{"id"' in text
        assert f"in arguments of {by} or a plan" in text
    results = Results(store, listed=True)
    results.services.offer(INDIRECT_CALLS, lambda session, effects: "use")
    text = (await results.answer(long))["content"][0]["text"]
    assert 'read_result {"id"' in text
    assert "in arguments of use or a plan" in text


async def test_a_preview_names_no_tool_that_is_not_installed(store):
    results = Results(store)
    results.services.offered.clear()
    text = (await results.answer(texts("line\n" * 5000)))["content"][0]["text"]
    assert 'read_result {"id"' in text
    assert "in arguments of a plan hands it on" in text


async def test_pages_together_are_the_whole_text(store):
    results = Results(store)
    text = "\n".join(f"row {i}: é ü 漢字 🎉" for i in range(3000))
    id = handle(await results.answer(texts(text)))
    first = await results.read(id=id, page=1)
    pages = int(re.match(r"Page 1 of (\d+)", first)[1])
    parts = [(await results.read(id=id, page=n)).split("\n", 1)[1] for n in range(1, pages + 1)]
    assert "".join(parts) == text


async def test_images_stay_and_structured_content_comes_before_its_text(store):
    results = Results(store)
    image = {"type": "image", "data": "AAAA" * 2000, "mimeType": "image/png"}
    answer = texts(json.dumps({"rows": ROWS}), structuredContent={"rows": ROWS})
    answer["content"].append(image)
    cut = await results.answer(answer)
    assert cut["content"][1:] == [image]
    assert "structuredContent" not in cut
    assert json.loads(await results.read(id=handle(cut), path="rows[0]")) == ROWS[0]


async def test_a_declared_result_is_whole_or_refused_with_its_handle(store):
    answer = texts("x", structuredContent={"rows": ROWS})
    assert await Results(store).answer(answer, "db:typed") is answer
    results = Results(store, declared="refuse")
    refused = await results.answer(answer, "db:typed")
    assert refused["isError"] is True
    assert "succeeded" in refused["content"][0]["text"]
    assert json.loads(await results.read(id=handle(refused), path="structured.rows[1]")) == ROWS[1]


async def test_an_error_stays_one(store):
    cut = await Results(store).answer(texts("no " * 5000, isError=True))
    assert cut["isError"] is True
    assert cut["content"][0]["text"].startswith("This error")


async def test_the_closest_budget_counts(store):
    settings = Settings(
        budget_tokens=100, tools={"db:r*": 10_000}, servers={"db": 7}, keys={"ali*": 6}, endpoints={"default": 5}
    )
    other = Session(key="c", principal="carol", mode="full_proxy", endpoint="other")
    assert settings.budget("db:rows", ALICE) == 10_000
    assert settings.budget("db:typed", ALICE) == 7
    assert settings.budget("fs:read", ALICE) == 6
    assert settings.budget("fs:read", BOB) == 5
    mine = Session(key="d", principal="dora", access_key="alix", mode="hybrid")
    assert settings.budget("fs:read", mine) == 6
    assert settings.budget("fs:read", other) == 0
    assert Settings(budget_tokens=0).budget("fs:read", ALICE) == 0


async def test_handles_are_their_principals_alone_and_unknown_ones_look_the_same(store):
    results = Results(store)
    id = handle(await results.answer(texts("a b " * 5000)))
    said = set()
    for session, asked in ((BOB, id), (ALICE, "r_nobodys"), (ALICE, ""), (ALICE, "../" * 50)):
        with pytest.raises(InvalidArguments) as raised:
            await results.read(session, id=asked, page=1)
        said.add(re.sub(r"'.*?'", "ID", str(raised.value)))
    assert len(said) == 1


async def test_secrets_are_not_stored(store):
    results = Results(store)
    for text in ("token hunter2 " * 2000, json.dumps([{"token": "hunter2", "n": n} for n in range(40_000)])):
        id = handle(await results.answer(texts(text)))
        kept = await results.stored.text(await results.stored.get(id, ALICE))
        assert "hunter2" not in kept
        assert kept == text.replace("hunter2", "***")


async def test_one_long_text_in_json_takes_no_multiple_of_its_memory(store):
    """A pattern that keeps each character to come back to it takes a hundred bytes for one."""
    results = Results(store)
    text = json.dumps({"content": "a line of it\n" * 80_000})
    tracemalloc.start()
    try:
        await results.answer(texts(text))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 12 * len(text)


async def test_a_secret_is_not_stored_however_json_escapes_it(store):
    results = Results(store)
    escaped = json.dumps([{"token": "a hunter2 b", "n": n} for n in range(5000)]).replace("hunter2", "h\\u0075nter2")
    assert "hunter2" in json.loads(escaped)[0]["token"]
    id = handle(await results.answer(texts(escaped)))
    kept = json.loads(await results.stored.text(await results.stored.get(id, ALICE)))
    assert {row["token"] for row in kept} == {"a *** b"}


async def test_who_may_not_have_a_tool_may_not_read_what_it_said(store):
    results = Results(store)
    id = handle(await results.answer(texts("a b " * 5000)))
    results.services.catalog.denied.add("db:rows")
    with pytest.raises(InvalidArguments, match="there is no stored result"):
        await results.read(id=id, page=1)


async def test_what_has_expired_is_gone(store, monkeypatch):
    results = Results(store, keep_hours=0.01)
    id = handle(await results.answer(texts("a b " * 5000)))

    class Past(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(UTC) - timedelta(hours=1)

    monkeypatch.setattr(stored_module, "datetime", Past)
    gone = handle(await results.answer(texts("c d " * 5000)))
    assert "a b" in await results.read(id=id, page=1)
    with pytest.raises(InvalidArguments, match="any more"):
        await results.read(id=gone, page=1)


async def test_the_oldest_goes_when_there_is_too_much(store):
    results = Results(store, keep_bytes=50_000)
    ids = [handle(await results.answer(texts(f"{n} word " * 2500))) for n in range(4)]
    assert "3 word" in await results.read(id=ids[3], page=1)
    with pytest.raises(InvalidArguments, match="any more"):
        await results.read(id=ids[0], page=1)
    kept = await store.documents.find("results.parts", limit=1000)
    assert {document.key.split("/")[0] for document in kept.items} <= set(ids[1:])


async def test_what_cannot_be_stored_is_answered_whole_and_logged(store):
    results = Results(store, keep_bytes=1000)
    answer = texts("a b " * 5000)
    assert await results.answer(answer) is answer
    assert [line for line in results.services.log.lines if line[0] == "warning"]


async def test_a_large_text_comes_back_in_all_its_parts(store):
    results = Results(store)
    text = "\n".join(f"{i} äöü" for i in range(200_000))
    id = handle(await results.answer(texts(text)))
    stored = await results.stored.get(id, ALICE)
    assert stored.parts > 2
    assert await results.stored.text(stored) == text


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "id"),
        ({"id": 5}, "id"),
        ({"id": "x", "page": "two"}, "page"),
        ({"id": "x", "nope": 1}, "nope"),
        ({"id": "x", "lines": "1-2", "page": 1}, "one of"),
        ({"id": "x", "lines": "1-2", "search": "a"}, "one of"),
    ],
)
async def test_wrong_arguments_are_said(store, asked, said):
    with pytest.raises(InvalidArguments, match=said):
        await Results(store).read(**asked)


async def test_text_that_no_encoding_has_is_kept(store):
    results = Results(store)
    id = handle(await results.answer(texts("\ud800 \x00 \x1b[31m word " * 2000)))
    assert "word" in await results.read(id=id, lines="1")


async def test_what_is_to_be_compact_is_made_so_before_it_is_counted(store):
    results = Results(store, budget_tokens=2500, compact={"db:*": ("tables",)})
    rows = [{"identifier": i, "name": f"n{i}"} for i in range(300)]
    told = await results.answer(texts(json.dumps(rows), structuredContent={"rows": rows}))
    assert META not in told.get("_meta", {})
    assert "structuredContent" not in told
    assert '"columns":["identifier","name"]' in told["content"][0]["text"]
    declared = texts("x", structuredContent={"rows": rows})
    assert await results.answer(declared, "db:typed") is declared


@pytest.mark.parametrize(
    ("settings", "mode", "expected"),
    [
        ({}, "meta_only", True),
        ({}, "full_proxy", False),
        ({"budget_tokens": 0}, "meta_only", False),
        ({"servers": {"files": 500}}, "full_proxy", True),
        ({"tools": {"files:read": 500}}, "full_proxy", True),
        ({"keys": {"k1": 500}}, "full_proxy", False),
    ],
)
def test_stored_results_are_spoken_of_where_there_can_be_some(settings, mode, expected):
    assert Settings(**settings).bounds(Session(key="s", mode=mode)) is expected
