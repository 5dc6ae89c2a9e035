"""The contract of every installed store, with default settings in a home folder of its own."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pml_testing.postgres import postgres
from pml_testing.store import StoreContract

__all__ = ["TestInstalledStore", "postgres"]


class TestInstalledStore(StoreContract):
    """One run per store."""

    @pytest.fixture
    def store_type(self, installed: Any) -> Any:
        """The class behind the entry point."""
        return installed.entry_point.load()

    @pytest.fixture
    def settings(
        self, store_type: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> Any:
        """Defaults, which must not lead to the data of whoever runs this.

        A store whose settings have a ``url`` gets that of an empty database of a PostgreSQL server of the test's own.
        """
        for variable in ("HOME", "USERPROFILE", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            monkeypatch.setenv(variable, str(tmp_path))
        monkeypatch.delenv("PML_HOME", raising=False)
        monkeypatch.chdir(tmp_path)
        settings_type = getattr(store_type, "settings_type", None)
        if settings_type is None:
            return None
        if any(field.name == "url" for field in fields(settings_type)):
            return settings_type(url=request.getfixturevalue("postgres").database())
        return settings_type()
