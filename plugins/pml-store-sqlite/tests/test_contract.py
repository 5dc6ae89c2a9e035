from __future__ import annotations

import pytest

from pml_store_sqlite import Settings, SqliteStore, text
from pml_testing.store import StoreContract
from pml_testing.store_text import TextContract


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store_type(self):
        return SqliteStore

    @pytest.fixture
    def settings(self, tmp_path):
        return Settings(path=str(tmp_path / "data" / "pml.db"))


class TestWhatTheIndexFinds(TextContract):
    """The contract's few executions would wait for more of them, and be looked through one by one."""

    @pytest.fixture
    async def store(self, tmp_path, monkeypatch):
        monkeypatch.setattr(text, "AT_ONCE", 1)
        async with SqliteStore(Settings(path=str(tmp_path / "pml.db"))) as store:
            yield store
