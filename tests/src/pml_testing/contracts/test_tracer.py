"""The contract of every installed tracer, with default settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pml_testing.records import ended
from pml_testing.tracer import TracerContract

if TYPE_CHECKING:
    from pml_hookspecs import Tracer


class TestInstalledTracer(TracerContract):
    """One run per tracer."""

    @pytest.fixture
    def tracer_type(self, installed: Any) -> Any:
        """The class behind the entry point."""
        return installed.entry_point.load()

    @pytest.fixture
    async def delivered(
        self, tracer: Tracer, arrivals: Callable[[], Counter[str]], installed: Any
    ) -> Callable[[], Counter[str]]:
        """What reached the store or the log, found out with one span; what goes elsewhere cannot be seen from here."""
        probe = ended(10**6)
        tracer.started(probe.span)
        tracer.ended(probe)
        await tracer.flush()
        if not arrivals():
            pytest.skip(f"{installed.name} delivers elsewhere; subclass TracerContract and override `delivered`")
        return lambda: arrivals() - Counter([probe.span.span_id])
