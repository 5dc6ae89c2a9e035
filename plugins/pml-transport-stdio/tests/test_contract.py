"""The transport keeps the contract."""

from __future__ import annotations

import pytest

from pml_testing.transport import TransportContract
from pml_transport_stdio import Settings, Stdio


class TestStdio(TransportContract):
    @pytest.fixture
    def transport(self, services):
        return Stdio(Settings(close_grace_s=0.3), services)
