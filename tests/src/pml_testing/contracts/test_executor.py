"""The contract of every installed executor, with default settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pml_testing.executor import TOOLS, ExecutorContract
from pml_testing.fakes import FakeCatalog, FakeServices, entry

if TYPE_CHECKING:
    from pml_hookspecs import Executor


class TestInstalledExecutor(ExecutorContract):
    """One run per executor."""

    @pytest.fixture
    def executor(self, installed: Any) -> Executor:
        driver = installed.entry_point.load()
        if getattr(driver, "durable", False):
            pytest.skip("what goes on after a crash needs runs of its own; its package holds it to this contract")
        settings = driver.settings_type() if hasattr(driver, "settings_type") else None
        services = FakeServices(installed.name, settings=settings, catalog=FakeCatalog([entry(tool) for tool in TOOLS]))
        made: Executor = driver(settings, services)
        return made
