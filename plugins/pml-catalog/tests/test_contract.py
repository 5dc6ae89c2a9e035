"""The search by words, which is there without any plugin, keeps the contract of searches."""

import pytest

from pml_catalog.search.word_index import WordIndex
from pml_testing.hook_contracts.search import SearchContract


class TestTheWordIndexKeepsTheContract(SearchContract):
    @pytest.fixture
    def make_index(self):
        return WordIndex
