from __future__ import annotations

import pytest

from pml_store_sqlite import Settings, SqliteStore
from pml_testing.store import StoreContract


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store_type(self):
        return SqliteStore

    @pytest.fixture
    def settings(self, tmp_path):
        # On a slow machine a test takes longer than it is until old executions, as the contract's are, are deleted.
        return Settings(path=str(tmp_path / "data" / "pml.db"), keep_days=0)
