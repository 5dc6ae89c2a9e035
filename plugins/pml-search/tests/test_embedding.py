from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from pml_hookspecs import Offer
from pml_kit.offers import EMBEDDER
from pml_search import catalogs, embedding, vector_file
from pml_search._numpy import np
from pml_search.index import Index
from pml_search.ranker import mixed
from pml_search.settings import Settings
from pml_search.vectors import CentredVectors, packed
from pml_testing.fakes import FakeLog, FakeServices, entry

pytestmark = pytest.mark.anyio

CATALOG = Path(__file__).parent / "data" / "catalog.jsonl"
ENTRIES = [entry(tool.id, tool.definition["description"]) for tool in catalogs.read(CATALOG, pytest.fail)]
KNOWS = {"gribbel": "forecast"}
"""Words that only the model understands."""


class Bag:
    """A model that knows words: a text is the sum of vectors made of its words' digests."""

    def __init__(self, name="bag", size=512):
        self.name, self.size = name, size
        self.asked, self.told = [], []
        self.fails, self.gate = None, None

    async def embed(self, texts, *, query):
        (self.asked if query else self.told).append(list(texts))
        if self.gate is not None:
            await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        return [self._vector(text) for text in texts]

    def _vector(self, text):
        total = np.full(self.size, 0.001, np.float32)
        for word in filter(lambda word: len(word) > 3, text.lower().replace(":", " ").replace(".", " ").split()):
            digest = hashlib.sha256(KNOWS.get(word, word).encode()).digest()
            seeds = np.random.default_rng(int.from_bytes(digest[:8], "big"))
            total += seeds.standard_normal(self.size).astype(np.float32)
        return total / np.linalg.norm(total)


@pytest.fixture
async def services():
    made = FakeServices("search", offers=[Offer(EMBEDDER, Bag())])
    yield made
    await made.stop()


def index_of(services, cache=None, **settings):
    return Index(FakeLog(), cache, services, Settings(learn_from_history=False, **settings))


async def ids(index, query, among=None):
    return [match.id for match in await index.search(query, limit=50, min_score=0.0, among=among)]


async def settled(index):
    """Until the model has seen what it is to see."""
    for _ in range(2000):
        meanings = index._embedding_index
        if meanings._model and not meanings._working.is_set() and not meanings.busy:
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the vectors of the tools were never ready")


async def reported(services):
    for _ in range(2000):
        if services.log.lines:
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the failure was not reported")


async def test_words_that_only_the_model_knows_are_found(services):
    index = index_of(services)
    await index.build(ENTRIES, "1")
    await settled(index)
    without = index_of(FakeServices("search"))
    await without.build(ENTRIES, "1")
    assert (await ids(without, "gribbel"))[0] != "sky:get_forecast"
    assert (await ids(index, "gribbel"))[0] == "sky:get_forecast"
    assert services.find(EMBEDDER).asked == [["gribbel"]]


async def test_scores_mean_the_same_with_the_model(services):
    index = index_of(services)
    await index.build(ENTRIES, "1")
    await settled(index)
    for query, fits in (("read a file", True), ("send an email", True), ("tune my guitar", False)):
        best = await index.search(query, limit=1, min_score=0.0)
        assert (best[0].score >= 0.7) == fits, query


async def test_without_weight_the_model_is_not_asked(services):
    index = index_of(services, embedder_weight=0.0)
    await index.build(ENTRIES, "1")
    await ids(index, "read a file")
    assert services.tasks == []
    assert services.find(EMBEDDER).asked == services.find(EMBEDDER).told == []


async def test_a_model_that_appears_after_the_start_is_used():
    services = FakeServices("search")
    index = index_of(services)
    await index.build(ENTRIES, "1")
    await ids(index, "read a file")
    services.offer(EMBEDDER, Bag())
    await ids(index, "read a file")
    await settled(index)
    assert (await ids(index, "gribbel"))[0] == "sky:get_forecast"
    await services.stop()


async def test_vectors_count_only_when_all_of_a_catalog_are_made(services):
    index = index_of(services)
    services.find(EMBEDDER).gate = asyncio.Event()
    await index.build(ENTRIES, "1")
    before = await ids(index, "gribbel")
    assert before == await ids(index, "gribbel")
    services.find(EMBEDDER).gate.set()
    await settled(index)
    assert (await ids(index, "gribbel"))[0] == "sky:get_forecast"
    assert sum(map(len, services.find(EMBEDDER).told)) == len(ENTRIES)
    assert max(map(len, services.find(EMBEDDER).told)) <= embedding.BATCH


async def test_a_changed_catalog_costs_the_model_only_what_changed(services):
    index = index_of(services)
    await index.build(ENTRIES, "1")
    await settled(index)
    services.find(EMBEDDER).told.clear()
    await index.build([*ENTRIES[1:], entry("files:read_file", "Show a file")], "2")
    await settled(index)
    assert services.find(EMBEDDER).told == [["files read file: Show a file"]]


async def test_what_descriptions_said_before_takes_no_more_memory_than_the_file_may_hold(services, monkeypatch):
    monkeypatch.setattr(vector_file, "MOST_VECTORS", len(ENTRIES) + 5)
    index = index_of(services)
    for n in range(20):
        await index.build([*ENTRIES, entry("harbour:ship_position", f"Where a container ship is, version {n}")], str(n))
        await settled(index)
        assert (await ids(index, "gribbel"))[0] == "sky:get_forecast"
    meanings = index._embedding_index
    assert len(meanings._places) == len(meanings._known) == len(ENTRIES) + 5
    assert sum(map(len, services.find(EMBEDDER).told)) == len(ENTRIES) + 20


async def test_a_new_tool_is_ranked_by_the_table_until_the_model_has_seen_it(services):
    index = index_of(services)
    await index.build(ENTRIES, "1")
    await settled(index)
    services.find(EMBEDDER).fails = OSError("unreachable")
    await index.build([*ENTRIES, entry("harbour:ship_position", "Where a container ship is at the moment")], "2")
    assert (await ids(index, "position of a container ship"))[0] == "harbour:ship_position"


async def test_a_restart_reads_the_vectors(services, tmp_path):
    index = index_of(services, tmp_path)
    await index.build(ENTRIES, "1")
    await settled(index)
    before = await index.search("gribbel", limit=9, min_score=0.0)
    again = FakeServices("search", offers=[Offer(EMBEDDER, Bag())])
    second = index_of(again, tmp_path)
    await second.build(ENTRIES, "1")
    await settled(second)
    assert await second.search("gribbel", limit=9, min_score=0.0) == before
    assert again.find(EMBEDDER).told == []
    other = FakeServices("search", offers=[Offer(EMBEDDER, Bag("another"))])
    third = index_of(other, tmp_path)
    await third.build(ENTRIES, "1")
    await settled(third)
    assert sum(map(len, other.find(EMBEDDER).told)) == len(ENTRIES)
    await again.stop()
    await other.stop()


@pytest.mark.parametrize("damage", [b"", b"nonsense", "cut", "other size"])
async def test_a_damaged_file_of_vectors_is_made_anew(services, tmp_path, monkeypatch, damage):
    monkeypatch.setattr(embedding, "REST_S", 0.0)
    index = index_of(services, tmp_path)
    await index.build(ENTRIES, "1")
    await settled(index)
    (file,) = tmp_path.glob(f"*{vector_file.ENDING}")
    whole = file.read_bytes()
    if damage == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif damage == "other size":
        keys, _ = vector_file.load(tmp_path, "bag")
        vector_file.save(tmp_path, "bag", keys[:3], packed(np.ones((3, 7), np.float32)))
    else:
        file.write_bytes(damage)
    embedding_again = FakeServices("search", offers=[Offer(EMBEDDER, Bag())])
    second = index_of(embedding_again, tmp_path)
    await second.build(ENTRIES, "1")
    await settled(second)
    if damage == "other size":
        await reported(embedding_again)
        await settled(second)
    assert (await ids(second, "gribbel"))[0] == "sky:get_forecast"
    assert len(vector_file.load(tmp_path, "bag")[0]) == len(ENTRIES)
    await embedding_again.stop()


async def test_a_query_that_takes_too_long_is_answered_without_the_model_and_later_with_it(services):
    index = index_of(services, embedder_deadline_ms=1)
    await index.build(ENTRIES, "1")
    await settled(index)
    services.find(EMBEDDER).gate = asyncio.Event()
    assert (await ids(index, "gribbel"))[0] != "sky:get_forecast"
    assert (await ids(index, "gribbel"))[0] != "sky:get_forecast"
    assert len(services.find(EMBEDDER).asked) == 1, "asked once while it is under way"
    services.find(EMBEDDER).gate.set()
    await asyncio.gather(*(ended.wait() for ended in index._embedding_index._pending.values()))
    assert (await ids(index, "gribbel"))[0] == "sky:get_forecast"
    assert len(services.find(EMBEDDER).asked) == 1


@pytest.mark.parametrize("answer", ["raises", "short", "bad numbers", "text"])
async def test_a_model_that_fails_is_reported_and_left_alone_for_a_while(services, monkeypatch, answer):
    index = index_of(services)
    await index.build(ENTRIES, "1")
    await settled(index)
    bag = services.find(EMBEDDER)
    wrong = {"short": [], "bad numbers": [[float("nan")] * 512], "text": "no vectors"}

    async def embed(texts, *, query):
        bag.asked.append(texts)
        if answer == "raises":
            raise ConnectionError("the service is down")
        return wrong[answer]

    monkeypatch.setattr(bag, "embed", embed)
    assert await ids(index, "read a file")
    assert await ids(index, "write a file")
    assert len(bag.asked) == 1
    ((level, event, fields),) = services.log.lines
    assert level == "warning"
    assert "without the model" in event
    assert fields["model"] == "bag"
    monkeypatch.setattr(embedding, "REST_S", 0.0)
    index._embedding_index._resting_until = 0.0
    await ids(index, "copy a file")
    assert len(bag.asked) == 2


async def test_tools_that_could_not_be_embedded_are_tried_again(services, monkeypatch):
    monkeypatch.setattr(embedding, "REST_S", 0.0)
    index = index_of(services)
    services.find(EMBEDDER).fails = OSError("unreachable")
    await index.build(ENTRIES, "1")
    await reported(services)
    services.find(EMBEDDER).fails = None
    await settled(index)
    assert (await ids(index, "gribbel"))[0] == "sky:get_forecast"


async def test_a_hidden_tool_leaves_no_trace_in_what_the_model_says(services):
    index = index_of(services)
    await index.build([*ENTRIES, entry("secret:gribbel", "gribbel")], "1")
    await settled(index)
    among = frozenset(one.id for one in ENTRIES)
    alone = index_of(FakeServices("search", offers=[Offer(EMBEDDER, Bag())]))
    await alone.build(ENTRIES, "1")
    await settled(alone)
    one, other = [await some.search("gribbel", limit=50, min_score=0.0, among=among) for some in (index, alone)]
    assert one == other
    await alone._services.stop()


async def test_a_folder_that_cannot_be_written_is_reported(services, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    index = index_of(services, blocked / "cache")
    await index.build(ENTRIES, "1")
    await settled(index)
    assert [level for level, *_ in services.log.lines] == ["warning"]
    assert (await ids(index, "gribbel"))[0] == "sky:get_forecast"


def test_old_vectors_are_dropped_first_and_those_in_use_never(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_file, "MOST_VECTORS", 4)
    keys = [vector_file.key(str(number)) for number in range(6)]
    vectors = packed(np.eye(6, dtype=np.float32))
    vector_file.save(tmp_path, "m", *vector_file.kept(keys, vectors, frozenset(keys[:2])))
    kept, stored = vector_file.load(tmp_path, "m")
    assert kept == [keys[0], keys[1], keys[4], keys[5]]
    assert (stored.numbers == vectors.numbers[[0, 1, 4, 5]]).all()
    assert [path.suffix for path in tmp_path.iterdir()] == [vector_file.ENDING]


def test_a_models_cosines_are_moved_to_the_scale_of_the_table():
    ours = np.linspace(0.1, 0.6, 20, dtype=np.float32)[None]
    theirs = np.linspace(0.95, 0.75, 20, dtype=np.float32)[None]
    both = mixed(ours, theirs, 1.0)
    assert both.mean() == pytest.approx(ours.mean(), abs=1e-5)
    assert both.std() == pytest.approx(ours.std(), abs=1e-5)
    assert both[0].argmax() == 0
    theirs[0, 3] = np.nan
    assert mixed(ours, theirs, 1.0)[0, 3] == ours[0, 3]
    assert (mixed(ours[:, :3], theirs[:, 5:8], 1.0) == ours[:, :3]).all(), "too few to know a spread"
    assert (mixed(ours, np.full_like(theirs, 0.8), 0.5) < 0.6).all(), "a model that sees no difference makes none"


def test_packed_vectors_have_the_cosines_of_the_vectors():
    some = np.random.default_rng(0)
    vectors = some.standard_normal((3000, 256)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    centred = vectors - 0.5 * vectors.mean(axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    asked = vectors[:7] + 0.02
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    for part in (3000, 9000):
        repeated = packed(np.tile(vectors, (part // 3000, 1)))
        found = CentredVectors(repeated, 0.5).cosines(asked)
        assert np.abs(found[:, :3000] - asked @ centred.T).max() < 0.004
