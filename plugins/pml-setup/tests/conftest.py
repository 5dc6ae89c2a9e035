"""What the tests of setup share."""

from __future__ import annotations

import pytest

from pml_testing.commands import cache_of_entry_points, installation, place

__all__ = ["cache_of_entry_points", "installation", "place"]


@pytest.fixture
def kept():
    return ("pml-setup",)
