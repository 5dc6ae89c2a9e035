from __future__ import annotations

import pytest

from pml_core.memory_executions import LARGEST_PAGE
from pml_core.nulls import REMEMBERED, MemoryDocuments, MemoryStore
from pml_hookspecs import ExecutionQuery, Scope
from pml_testing.records import ended, execution
from pml_testing.store import StoreContract

EVERYONE = Scope(principals=None)


class TestMemoryStore(StoreContract):
    """The contract of every store, but for what only lasting data can keep."""

    test_leaving_writes_what_is_queued = None  # memory is gone when it is left
    test_everything_is_there_the_next_time = None  # so there is no next time
    test_what_was_put_survives_a_kill = None
    test_construction_takes_settings_and_services = None  # not installed under a name, so it has no settings class

    @pytest.fixture
    def open_store(self):
        return lambda: MemoryStore(remembered=100_000)


pytestmark = pytest.mark.anyio


def test_it_is_made_like_any_store():
    for arguments in ((), (None, None)):
        assert hasattr(MemoryStore(*arguments), "__aenter__")


async def test_only_the_last_executions_are_remembered():
    async with MemoryStore() as store:
        for number in range(REMEMBERED + 20):
            await store.executions.put(execution(number))
        page = await store.executions.find(ExecutionQuery(scope=EVERYONE, limit=LARGEST_PAGE))
        assert page.total == REMEMBERED
        assert await store.executions.get(execution(0).id, EVERYONE) is None
        assert await store.executions.get(execution(REMEMBERED + 19).id, EVERYONE) is not None


async def test_only_the_last_spans_are_remembered():
    async with MemoryStore(remembered=2) as store:
        one = execution(0)
        await store.executions.put(one)
        spans = [ended(n, one.id) for n in range(5)]
        await store.traces.append(spans)
        assert [e.span.span_id for e in await store.traces.of(one.id, EVERYONE)] == [e.span.span_id for e in spans[-2:]]


async def test_a_cursor_whose_record_is_forgotten_is_refused():
    async with MemoryStore(remembered=3) as store:
        for number in range(3):
            store.executions.record(execution(number))
        page = await store.executions.find(ExecutionQuery(scope=EVERYONE, limit=1))
        for number in range(3, 9):
            store.executions.record(execution(number))
        with pytest.raises(ValueError, match="cursor"):
            await store.executions.find(ExecutionQuery(scope=EVERYONE, limit=1, cursor=page.cursor))


async def test_only_the_documents_changed_last_are_remembered():
    documents = MemoryDocuments(most=3)
    for number in (0, 1, 2, 0, 3, 4):
        documents.put_soon("test", f"{number}", {"n": number})
    assert [d.key for d in (await documents.find("test")).items] == ["4", "3", "0"]
    assert documents.drops == 2


async def test_large_documents_push_out_others_and_are_kept_themselves():
    documents = MemoryDocuments(most_bytes=1000)
    for number in range(5):
        await documents.put("test", f"{number}", {"text": "x" * 300})
    assert (await documents.find("test")).total == 3
    await documents.delete("test", "4")
    await documents.put("test", "5", {"text": "x" * 300})
    assert (await documents.find("test")).total == 3
    await documents.put("test", "large", {"text": "x" * 3000})
    assert [d.key for d in (await documents.find("test")).items] == ["large"]


async def test_documents_that_cannot_be_kept_are_counted():
    async with MemoryStore() as store:
        store.documents.put_soon("test", "a", {"callable": print})
        assert (await store.health())["drops"] == 1
