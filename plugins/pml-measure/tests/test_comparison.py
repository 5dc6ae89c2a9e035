from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pml_hookspecs import InvalidArguments, Match, ToolId
from pml_kit.offers import EMBEDDER
from pml_measure import comparison, eval_command

pytestmark = pytest.mark.anyio


class Model:
    """An embedder that says when it was first used."""

    name = "tiny:1"

    def __init__(self, failure: Exception | None = None) -> None:
        self.used, self.failure = asyncio.Event(), failure

    async def embed(self, texts: Any, *, query: bool) -> Any:
        if self.failure is not None:
            raise self.failure
        self.used.set()
        return [[1.0] for _ in texts]


@pytest.fixture
def asked(tmp_path: Any) -> str:
    lines = [
        {"query": "give the text of one document.", "gold": ["files:read_file"]},
        {"query": "nothing alike", "gold": ["files:delete_file"]},
        {"query": "deliver some text", "gold": ["mail:send_message"]},
    ]
    path = tmp_path / "q.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return str(path)


@pytest.fixture
def without(services: Any, arguments: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> list[tuple[str, ...]]:
    """Runs the other command here, without a model; the words of each."""
    commands: list[tuple[str, ...]] = []
    plain = services.catalog.search

    async def pml(*words: str) -> str:
        commands.append(words)
        given = dict(word[2:].split("=", 1) for word in words if "=" in word)
        learned, services.catalog.search = services.catalog.search, plain
        chosen = arguments(queries=given["queries"], limit=int(given["limit"]), only="search", details=True)
        await eval_command.run(chosen, services)
        services.catalog.search = learned
        return str(capsys.readouterr().out)

    monkeypatch.setattr(comparison, "pml", pml)
    return commands


def learn(services: Any, after: asyncio.Event) -> None:
    """A search that knows one synonym once the vectors are there."""
    plain = services.catalog.search

    async def search(query: str, **how: Any) -> Any:
        if after.is_set() and query == "nothing alike":
            return [Match(ToolId("files:delete_file"), 0.9)]
        return await plain(query, **how)

    services.catalog.search = search


async def test_both_searches_stand_side_by_side_once_the_vectors_are_there(
    services: Any, arguments: Any, printed: Any, asked: str, without: Any
) -> None:
    model = Model()
    services.offer(EMBEDDER, model)
    ready = asyncio.Event()
    learn(services, ready)
    given = arguments(queries=asked, compare_embedder=True, overrides=["a.b=1"], mode="chosen")
    task = asyncio.ensure_future(eval_command.run(given, services))
    await asyncio.wait_for(model.used.wait(), 30)
    assert not task.done()
    ready.set()
    assert await task == 0
    said = printed()
    before, after = said["rows"]
    assert (before["name"], after["name"]) == ("without", "with")
    assert after["hit@1"] == pytest.approx(before["hit@1"] + 1 / 3)
    assert (said["better"], said["worse"], said["same"]) == (1, 0, 2)
    assert said["embedder"] == "tiny:1"
    (words,) = without
    assert {"--set=a.b=1", "--mode=chosen"} <= set(words)
    assert words[-1] == f"--set={comparison.OFF}", "the last one counts"


async def test_people_are_told_what_it_adds(
    services: Any, arguments: Any, asked: str, without: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Model()
    services.offer(EMBEDDER, model)
    learn(services, model.used)
    await eval_command.run(arguments(queries=asked, compare_embedder=True, json=False), services)
    out = capsys.readouterr().out
    assert "Embedder: tiny:1" in out
    assert "better for 1 queries, worse for 0, as good for 2" in out
    assert "NDCG@10 +33.3 points" in out


async def test_without_an_embedder_it_is_said_how_to_get_one(services: Any, arguments: Any) -> None:
    with pytest.raises(InvalidArguments, match=r"no embedder is configured. Install pml-search-embeddings"):
        await eval_command.run(arguments(compare_embedder=True), services)


async def test_an_embedder_that_fails_is_told_with_its_reason(
    services: Any, arguments: Any, asked: str, without: Any
) -> None:
    services.offer(EMBEDDER, Model(RuntimeError("no such model")))
    with pytest.raises(InvalidArguments, match="tiny:1 fails: no such model"):
        await eval_command.run(arguments(queries=asked, compare_embedder=True), services)


async def test_a_search_that_takes_no_notice_of_it_is_said_to(
    services: Any, arguments: Any, asked: str, without: Any
) -> None:
    services.offer(EMBEDDER, Model())
    with pytest.raises(InvalidArguments, match=r"after 0\.3 s the search still finds the same"):
        await eval_command.run(arguments(queries=asked, compare_embedder=True, wait=0.3), services)


@pytest.mark.parametrize("other", [{"floor": ["hit@1=1"]}, {"only": "search"}])
async def test_options_of_other_rows_are_refused(services: Any, arguments: Any, other: Any) -> None:
    services.offer(EMBEDDER, Model())
    with pytest.raises(InvalidArguments, match="leave out --floor and --only"):
        await eval_command.run(arguments(compare_embedder=True, **other), services)
