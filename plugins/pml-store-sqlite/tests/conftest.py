from __future__ import annotations

import pytest


@pytest.fixture
def path(tmp_path):
    """Where a test keeps its data."""
    return tmp_path / "pml.db"
