from __future__ import annotations

import pytest

from pml_store_postgres import PostgresStore
from pml_testing.store import StoreContract


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store_type(self):
        return PostgresStore

    @pytest.fixture
    def settings(self, emptied):
        return emptied
