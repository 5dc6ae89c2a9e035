from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pml_search import index_data, snapshot
from pml_search.index import Index
from pml_search.piece_vectors import table
from pml_search.plugin import pml_offers
from pml_search.ranker import Ranker
from pml_search.settings import Settings
from pml_testing.fakes import FakeLog, FakeServices, entry

pytestmark = pytest.mark.anyio

SOME = st.lists(st.integers(0, 34), max_size=12, unique=True)
ENTRIES = [
    entry("files:read_file", "Read the content of a file"),
    entry("files:write_file", "Write text into a file"),
    entry("mail:send_email", "Send an email"),
    entry("sky:forecast", "Weather forecast for a city"),
]


@pytest.fixture
def index(tmp_path):
    return Index(FakeLog(), tmp_path / "cache")


async def ids(index, query, limit=10, min_score=0.0):
    return [match.id for match in await index.search(query, limit=limit, min_score=min_score)]


async def test_before_the_first_build_nothing_is_found(index):
    assert await ids(index, "read") == []


async def test_matches_are_best_first_limited_and_above_the_least_score(index):
    await index.build(ENTRIES, "1")
    found = await index.search("read a file", limit=3, min_score=0.0)
    assert [match.id for match in found][:2] == ["files:read_file", "files:write_file"]
    assert len(found) == 3
    assert all(0 <= match.score <= 1 for match in found)
    assert found == sorted(found, key=lambda match: (-match.score, match.id))
    assert all(match.score >= 0.5 for match in await index.search("read a file", limit=3, min_score=0.5))
    assert await ids(index, "read a file", limit=0) == []
    assert await ids(index, "  ") == []


async def test_a_build_replaces_what_was_there(index):
    await index.build(ENTRIES, "1")
    await index.build(ENTRIES[2:], "2")
    assert "files:read_file" not in await ids(index, "read a file")
    await index.build([], "3")
    assert await ids(index, "send an email") == []


async def test_searches_use_the_old_index_until_the_new_one_is_ready(index, monkeypatch):
    await index.build(ENTRIES[:2], "1")
    begun, go_on = threading.Event(), threading.Event()
    real = index_data.build

    def slow(*given):
        begun.set()
        assert go_on.wait(10)
        return real(*given)

    monkeypatch.setattr(index_data, "build", slow)
    building = asyncio.ensure_future(index.build(ENTRIES, "2"))
    await asyncio.to_thread(begun.wait, 10)
    assert "mail:send_email" not in await ids(index, "send an email")
    go_on.set()
    await building
    assert (await ids(index, "send an email"))[0] == "mail:send_email"


async def test_builds_that_overlap_end_with_the_last_one(index):
    await asyncio.gather(*(index.build(ENTRIES[:n], str(n)) for n in (1, 4, 2)))
    assert set(await ids(index, "email file")) == {e.id for e in ENTRIES[:2]}


async def test_among_leaves_others_out(index):
    await index.build(ENTRIES, "1")
    found = await index.search("file", limit=9, min_score=0.0, among={"files:write_file", "sky:forecast"})
    assert [match.id for match in found] == ["files:write_file", "sky:forecast"]


async def test_a_restart_reads_the_index_and_answers_the_same(index, tmp_path, monkeypatch):
    await index.build(ENTRIES, "1")
    before = await index.search("write a file", limit=9, min_score=0.0)
    monkeypatch.setattr(index_data, "build", lambda *_: pytest.fail("built again"))
    second = Index(FakeLog(), tmp_path / "cache")
    await second.build(ENTRIES, "1")
    assert await second.search("write a file", limit=9, min_score=0.0) == before


async def test_after_a_restart_only_changed_tools_are_read(index, tmp_path, monkeypatch):
    await index.build(ENTRIES, "1")
    read = []
    real = index_data.read_rows
    monkeypatch.setattr(index_data, "read_rows", lambda some, *more: read.extend(some) or real(some, *more))
    changed = [*ENTRIES[1:], entry("files:read_file", "Show a file")]
    second = Index(FakeLog(), tmp_path / "cache")
    await second.build(changed, "2")
    assert [tool.id for tool in read] == ["files:read_file"]


@pytest.mark.parametrize("damage", [b"", b"nonsense", None, "cut", "flip"])
async def test_a_damaged_file_is_built_anew(index, tmp_path, damage):
    await index.build(ENTRIES, "1")
    (file,) = (tmp_path / "cache").iterdir()
    whole = file.read_bytes()
    if damage == "cut":
        damage = whole[: len(whole) // 2]
    elif damage == "flip":
        middle = len(whole) // 2
        damage = whole[:middle] + bytes(64) + whole[middle + 64 :]
    elif damage is None:
        other = Index(FakeLog(), tmp_path / "other")
        await other.build(ENTRIES[:1], "1")
        damage = next((tmp_path / "other").iterdir()).read_bytes()
    file.write_bytes(damage)
    second = Index(FakeLog(), tmp_path / "cache")
    await second.build(ENTRIES, "1")
    assert (await ids(second, "send an email"))[0] == "mail:send_email"
    assert len(file.read_bytes()) == len(whole)


async def test_the_folder_holds_few_files_and_no_leftovers(index, tmp_path):
    for n in range(1, 8):
        await index.build([entry(f"s:t{m}") for m in range(n)], str(n))
    files = list((tmp_path / "cache").iterdir())
    assert len(files) == snapshot.MOST_FILES
    assert all(not file.name.startswith(".") for file in files)


async def test_a_folder_that_cannot_be_written_is_reported_and_search_works(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    log = FakeLog()
    index = Index(log, blocked / "cache")
    await index.build(ENTRIES, "1")
    assert (await ids(index, "send an email"))[0] == "mail:send_email"
    assert [level for level, *_ in log.lines] == ["warning"]


async def test_the_plugin_gives_one_index_that_keeps_to_its_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("PML_HOME", str(tmp_path))
    (index,) = (one.service for one in pml_offers(FakeServices("search", settings=Settings(cache=False))))
    await index.build(ENTRIES, "1")
    assert not (tmp_path / "cache").exists()
    (index,) = (one.service for one in pml_offers(FakeServices("search")))
    await index.build(ENTRIES, "1")
    assert list((tmp_path / "cache" / "search").iterdir())


def test_importing_the_plugin_loads_nothing_heavy():
    code = "import sys, pml_search.plugin, pml_search.command; print('numpy' in sys.modules, 'difflib' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["False", "False"]


def test_the_environment_is_as_before():
    code = "import os, pml_search._numpy; print(os.environ.get('OPENBLAS_NUM_THREADS'))"
    bare = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    for inherited, expected in ((bare, "None"), ({**bare, "OPENBLAS_NUM_THREADS": "2"}, "2")):
        shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=inherited)
        assert shown.stdout.strip() == expected


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(SOME, SOME)
def test_an_index_that_grew_is_the_index_that_is_built_at_once(tools, first, second):
    before = index_data.build([tools[n] for n in first], table())
    grown = index_data.build([tools[n] for n in second], table(), (before.rows, before.vocabulary))
    fresh = index_data.build([tools[n] for n in second], table())
    assert list(grown.vocabulary.places) == list(fresh.vocabulary.places)
    for query in ("read a file", "create an issue then send an email"):
        one, other = Ranker(grown).search(query, 50), Ranker(fresh).search(query, 50)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.tools.tolist() == other.tools.tolist()
            assert one.relevance.tolist() == other.relevance.tolist()
