"""The contract of transports, run against every installed one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pml_testing.fakes import FakeServices
from pml_testing.transport import TransportContract

if TYPE_CHECKING:
    from pml_core.registry import Record
    from pml_hookspecs import Transport


class TestInstalledTransport(TransportContract):
    """One run per installed transport, with its default settings."""

    @pytest.fixture
    def transport(self, installed: Record, services: FakeServices) -> Transport:
        """The driver behind the entry point."""
        if installed.name != "stdio":
            pytest.skip("the scripted servers speak stdio: subclass TransportContract in the transport's own tests")
        driver: Any = installed.entry_point.load()
        made: Transport = driver(driver.settings_type(), services)
        return made
