"""Fixtures of the library's tests."""

from __future__ import annotations

import pytest

from pml_testing.fakes import FakeLog


@pytest.fixture
def log():
    """What is logged."""
    return FakeLog()
