from __future__ import annotations

import pytest

from pml_testing.tracer import TracerContract
from pml_tracer_log import LogTracer


class TestLogTracer(TracerContract):
    @pytest.fixture
    def tracer_type(self):
        return LogTracer
