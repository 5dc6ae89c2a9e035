from __future__ import annotations

import pytest

from pml_stores.sql import housekeeping


@pytest.fixture
def path(tmp_path):
    """Where a test keeps its data."""
    return tmp_path / "pml.db"


@pytest.fixture(autouse=True)
def _nothing_deleted_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded is old: on a slow machine a test may last until it would be deleted."""
    monkeypatch.setattr(housekeeping, "FIRST_S", 3600.0)
