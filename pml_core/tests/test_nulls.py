from __future__ import annotations

import pytest

from pml_core.plugins.nulls import REMEMBERED, MemoryStore
from pml_hookspecs import ExecutionQuery, Scope
from pml_testing.records import execution
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
        page = await store.executions.find(ExecutionQuery(scope=EVERYONE, limit=100))
        assert page.total == REMEMBERED
        assert await store.executions.get(execution(0).id, EVERYONE) is None
        assert await store.executions.get(execution(REMEMBERED + 19).id, EVERYONE) is not None


async def test_it_says_what_it_is_and_counts_what_cannot_be_kept():
    async with MemoryStore() as store:
        store.documents.put_soon("test", "a", {"callable": print})
        assert await store.health() == {"kind": "memory", "executions": 0, "drops": 1}
