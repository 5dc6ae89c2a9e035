from __future__ import annotations

from collections import Counter

import pytest

from pml_testing.tracer import TracerContract
from pml_tracer_otel import OtelTracer, Settings


class TestOtelTracer(TracerContract):
    @pytest.fixture
    def tracer_type(self):
        return OtelTracer

    @pytest.fixture
    def settings(self, receiver, sink):
        # A collector that is out of order when the contract's sink is.
        receiver.status = lambda: 503 if sink.problem else 200
        return Settings(endpoint=receiver.endpoint, exit_s=4.5, interval_s=0.1)

    @pytest.fixture
    def delivered(self, receiver):
        return lambda: Counter(span.id for span in receiver.spans)
