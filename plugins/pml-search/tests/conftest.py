from __future__ import annotations

from pathlib import Path

import pytest

from pml_search import catalogs, index_data
from pml_search.piece_vectors import table
from pml_search.ranker import Ranker

CATALOG = Path(__file__).parent / "data" / "catalog.jsonl"


@pytest.fixture(scope="session")
def catalog_file():
    return CATALOG


@pytest.fixture(scope="session")
def tools():
    return catalogs.read(CATALOG, pytest.fail)


@pytest.fixture(scope="session")
def ranker(tools):
    return Ranker(index_data.build(tools, table()))


@pytest.fixture(scope="session")
def ids(ranker):
    def found(query, limit=10, among=None):
        ranked = ranker.search(query, limit, among)
        return [] if ranked is None else [ranker.data.ids[tool] for tool in ranked.tools]

    return found
