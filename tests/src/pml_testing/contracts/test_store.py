"""The contract of every installed store, with default settings in a home folder of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pml_testing.store import StoreContract


class TestInstalledStore(StoreContract):
    """One run per store."""

    @pytest.fixture
    def store_type(self, installed: Any) -> Any:
        """The class behind the entry point."""
        return installed.entry_point.load()

    @pytest.fixture
    def settings(self, store_type: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Defaults, which must not lead to the data of whoever runs this."""
        for variable in ("HOME", "USERPROFILE", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            monkeypatch.setenv(variable, str(tmp_path))
        monkeypatch.delenv("PML_HOME", raising=False)
        monkeypatch.chdir(tmp_path)
        return store_type.settings_type() if hasattr(store_type, "settings_type") else None
