from __future__ import annotations

import json

import pytest

from pml_audit.trail import Trail


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the audit is. Nothing of the user's is looked at."""
    monkeypatch.setenv("PML_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home" / "audit"


@pytest.fixture
def trail(folder):
    return Trail(folder, file_bytes=10_000_000, sync=False)


@pytest.fixture
def rows(folder):
    """All rows, read without the code under test."""

    def read(kind=None):
        found = []
        for path in [*sorted(folder.glob("audit-*.jsonl")), folder / "audit.jsonl"]:
            if path.exists():
                found += [json.loads(line) for line in path.read_text().splitlines()]
        return [row for row in found if kind in (None, row["kind"])]

    return read
