"""The contract of exposure modes, run against every installed one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pml_testing.exposure_mode import ExposureModeContract

if TYPE_CHECKING:
    from pml_core.plugins.registry import Record


class TestInstalledExposureMode(ExposureModeContract):
    """One run per installed exposure mode, with its default settings."""

    @pytest.fixture
    def mode_type(self, installed: Record) -> Any:
        """The class behind the entry point."""
        return installed.entry_point.load()
