"""The contract of every installed tracer, with default settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pml_testing.tracer import TracerContract


class TestInstalledTracer(TracerContract):
    """One run per tracer."""

    @pytest.fixture
    def tracer_type(self, installed: Any) -> Any:
        """The class behind the entry point."""
        return installed.entry_point.load()

    @pytest.fixture
    def delivered(self, delivered: Callable[[], Counter[str]], installed: Any) -> Callable[[], Counter[str]]:
        """What reached the store or the log; what goes elsewhere cannot be seen from here."""

        def seen() -> Counter[str]:
            found = delivered()
            if not found:
                pytest.skip(f"{installed.name} delivers elsewhere; subclass TracerContract and override `delivered`")
            return found

        return seen
