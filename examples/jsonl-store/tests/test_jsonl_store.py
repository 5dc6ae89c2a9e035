from __future__ import annotations

import asyncio
import json
import resource
from contextlib import contextmanager

import pytest

from pml_example_jsonl_store import JsonlStore, Settings
from pml_hookspecs import ExecutionQuery
from pml_testing.records import ALICE, EVERYONE, execution
from pml_testing.store import StoreContract

EXECUTIONS = ExecutionQuery(scope=EVERYONE)
pytestmark = pytest.mark.anyio


class TestContract(StoreContract):
    @pytest.fixture
    def store_type(self):
        return JsonlStore

    @pytest.fixture
    def settings(self, tmp_path):
        return Settings(path=str(tmp_path / "data" / "pml.jsonl"))


@pytest.fixture
def settings(tmp_path):
    return Settings(path=str(tmp_path / "pml.jsonl"))


async def test_the_file_is_lines_of_json_that_others_can_read(settings, tmp_path):
    async with JsonlStore(settings) as store:
        await store.executions.put(execution(1, intent="read it"))
        await store.documents.put("notes", "a", {"n": 1})
        await store.documents.delete("notes", "a")
    head, *lines = map(json.loads, (tmp_path / "pml.jsonl").read_text().splitlines())
    assert head == {"pml_jsonl": 1}
    assert [line[0] for line in lines] == ["execution", "document", "document"]
    assert (lines[0][2]["intent"], lines[2][2]) == ("read it", None)
    assert (tmp_path / "pml.jsonl").stat().st_mode & 0o777 == 0o600


async def test_a_line_that_was_being_written_is_left_out(settings, tmp_path):
    async with JsonlStore(settings) as store:
        await store.executions.put(execution(1))
    with (tmp_path / "pml.jsonl").open("a") as file:
        file.write('["execution", "2", {"id"')
    async with JsonlStore(settings) as store:
        await store.executions.put(execution(3))
    async with JsonlStore(settings) as store:
        assert await store.executions.get(execution(3).id, ALICE) is not None
        assert len(store.executions.records) == 2


async def test_two_gateways_do_not_share_a_file(settings):
    async with JsonlStore(settings):
        with pytest.raises(RuntimeError, match="in use by another gateway"):
            await JsonlStore(settings).__aenter__()


async def test_a_file_of_a_newer_version_is_refused_and_left_alone(settings, tmp_path):
    (tmp_path / "pml.jsonl").write_text('{"pml_jsonl":2}\n["future"]\n')
    for _ in range(2):
        with pytest.raises(RuntimeError, match="another version of this store"):
            await JsonlStore(settings).__aenter__()
    assert (tmp_path / "pml.jsonl").read_text() == '{"pml_jsonl":2}\n["future"]\n'


async def test_a_file_that_is_mostly_out_of_date_is_written_anew(settings, tmp_path):
    async with JsonlStore(settings) as store:
        await store.documents.put("notes", "a", {"n": 299})
    grown = tmp_path / "pml.jsonl"
    head, line = grown.read_text().splitlines()
    grown.write_text("\n".join([head, *[line] * 300, ""]))
    async with JsonlStore(settings) as store:
        assert grown.read_text().splitlines() == [head, line]
        found = await store.documents.get("notes", "a")
    assert (found.value["n"], found.version) == (299, 1)


async def test_a_gateway_keeps_its_history_in_it(settings, gateway):
    for count in (1, 2):
        async with gateway([JsonlStore], settings={"jsonl": {"path": settings.path}}) as client:
            await client.call("files__read_file")
            page = await client.gateway.store.executions.find(EXECUTIONS)
            assert page.total == count


@contextmanager
def full_from(size_bytes):
    """No file of this process gets longer."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_full_disk_costs_nothing_that_was_acknowledged(settings, tmp_path):
    async with JsonlStore(settings) as store:
        for n in (1, 2, 3):
            await store.executions.put(execution(n))
        full = tmp_path.joinpath("pml.jsonl").stat().st_size + 50
        with full_from(full):
            with pytest.raises(OSError, match="large"):
                await store.executions.put(execution(4))
            store.executions.record(execution(5))
            with pytest.raises(OSError, match="large"):
                await store.executions.prune(before=execution(2).started_at)
        await store.executions.put(execution(6))
    async with JsonlStore(settings) as store:
        assert set(store.executions.records) == {execution(n).id for n in (2, 3, 4, 5, 6)}


async def test_what_is_recorded_is_in_the_file_soon_without_being_asked_for(settings, tmp_path):
    async with JsonlStore(settings) as store:
        store.executions.record(execution(1))
        async with asyncio.timeout(10):
            while execution(1).id not in (tmp_path / "pml.jsonl").read_text():  # noqa: ASYNC110 - a file is waited for
                await asyncio.sleep(0.01)


async def test_a_file_does_not_grow_with_what_is_out_of_date(settings, tmp_path):
    async with JsonlStore(settings) as store:
        for n in range(1000):
            await store.documents.put("notes", "a", {"n": n})
        assert len((tmp_path / "pml.jsonl").read_text().splitlines()) <= 110
        assert (await store.documents.get("notes", "a")).value["n"] == 999


async def test_what_the_file_cannot_keep_is_not_kept(settings):
    async with JsonlStore(settings) as store:
        with pytest.raises(TypeError):
            await store.executions.put(execution(1, request={"no": object()}))
        store.executions.record(execution(2, request={"no": object()}))
        assert not store.executions.records
        assert (await store.health())["drops"] == 1


async def test_what_still_runs_keeps_all_that_it_belongs_to(settings):
    async with JsonlStore(settings) as store:
        await store.executions.put(execution(1, duration_ms=None))
        await store.executions.put(execution(2, parent=execution(1).id, status="running", duration_ms=5))
        assert await store.executions.prune(before=execution(9).started_at) == 0
        await store.executions.put(execution(2, parent=execution(1).id))
        assert await store.executions.prune(before=execution(9).started_at) == 1
        assert not store.executions.records
