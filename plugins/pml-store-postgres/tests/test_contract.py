from __future__ import annotations

import pytest

from pml_hookspecs import replace
from pml_store_postgres import PostgresStore
from pml_testing.store import StoreContract


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store_type(self):
        return PostgresStore

    @pytest.fixture
    def settings(self, emptied):
        # On a slow machine a test takes longer than it is until old executions, as the contract's are, are deleted.
        return replace(emptied, keep_days=0)
