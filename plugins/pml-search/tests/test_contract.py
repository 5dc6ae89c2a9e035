"""The index keeps the contract of searches."""

import pytest

from pml_search.index import Index
from pml_testing.fakes import FakeLog
from pml_testing.hook_contracts.search import SearchContract


class TestTheIndexKeepsTheContract(SearchContract):
    @pytest.fixture
    def make_index(self):
        return lambda: Index(FakeLog())
