"""What these tests share."""

from __future__ import annotations

import pytest

from pml_testing.commands import cache_of_entry_points, installation, no_local_modules, place, policy

__all__ = ["cache_of_entry_points", "installation", "no_local_modules", "place", "policy"]


@pytest.fixture
def kept():
    return ["pml-admin"]
