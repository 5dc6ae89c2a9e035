from __future__ import annotations

import pytest

from pml_testing.tracer import TracerContract
from pml_tracer_store import StoreTracer


class TestStoreTracer(TracerContract):
    @pytest.fixture
    def tracer_type(self):
        return StoreTracer
