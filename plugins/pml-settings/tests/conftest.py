"""What the tests of settings share."""

from __future__ import annotations

import pytest

from pml_testing.commands import cache_of_entry_points, installation, kept, place

__all__ = ["cache_of_entry_points", "installation", "kept", "place"]


@pytest.fixture(autouse=True)
def _no_packs(request, monkeypatch):
    """Where a test installs nothing, no pack that happens to be installed has defaults."""
    if "installation" not in request.fixturenames:
        monkeypatch.setattr("pml_settings.packs.GROUP", "pml.no_defaults")
