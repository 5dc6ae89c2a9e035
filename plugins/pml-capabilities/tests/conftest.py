from __future__ import annotations

import pytest

from pml_store_sqlite import Settings, SqliteStore


@pytest.fixture
async def store(tmp_path):
    """A real one."""
    async with SqliteStore(Settings(path=str(tmp_path / "pml.db"))) as store:
        yield store


@pytest.fixture
async def gateway(store):
    from lessons import Gateway

    made = Gateway(store)
    yield made
    await made.services.stop()
