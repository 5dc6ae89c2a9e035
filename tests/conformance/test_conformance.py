"""Whatever passes directly passes through the gateway: the official scenarios, against a server with their fixtures."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
REVISIONS = ("2025-11-25", "2026-07-28")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What came of all runs. Without the variable they are skipped, as the README promises; with it nothing is."""
    if "PML_E2E_NODE_DIR" not in os.environ:
        pytest.skip("needs Node: run tests/e2e/install_node_tools.sh DIR and set PML_E2E_NODE_DIR=DIR")
    folder = tmp_path_factory.mktemp("conformance")
    report = folder / "report.json"
    command = [sys.executable, str(HERE), "--json", str(report), "--keep", str(folder / "runs")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=dict(os.environ))
    assert report.exists(), ran.stderr
    return json.loads(report.read_text())


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_reference_server_has_all_that_a_revision_requires(found, revision):
    assert found["unmet"][revision] == []


@pytest.mark.parametrize("route", ["stdio", "http"])
@pytest.mark.parametrize("revision", REVISIONS)
def test_what_passes_directly_passes_through_the_gateway(found, revision, route):
    worse = found["differences"][revision][route]
    lines = [f"{d['scenario']} / {d['check']}: {d['direct']} -> {d['through']}: {d['message']}" for d in worse]
    assert worse == [], "\n".join(lines)


def test_differences_that_are_accepted_exist(found):
    assert found["stale"] == []


def test_the_documentation_has_these_results(found):
    assert found["documented"], "Run python tests/conformance --write-docs"


@pytest.fixture(scope="module")
def results():
    """The module that compares; it needs nothing but the standard library."""
    return runpy.run_path(str(HERE / "results.py"))


@pytest.mark.parametrize(
    ("direct", "through", "is_worse"),
    [
        ("SUCCESS", "SUCCESS", False),
        ("SUCCESS", "INFO", True),
        ("SUCCESS", "WARNING", True),
        ("SUCCESS", "FAILURE", True),
        ("SUCCESS", None, True),
        ("INFO", None, False),
        ("INFO", "FAILURE", True),
        ("WARNING", "FAILURE", True),
        ("FAILURE", "FAILURE", False),
        ("FAILURE", "SUCCESS", False),
        (None, "SUCCESS", False),
        (None, "INFO", False),
        (None, "FAILURE", True),
    ],
)
def test_a_check_that_is_worse_is_a_difference(results, direct, through, is_worse):
    check = results["Check"]("scenario", "id", "name")
    sides = [{} if status is None else {check: results["Verdict"](status)} for status in (direct, through)]
    assert bool(results["differences"](*sides)) == is_worse


def test_of_a_check_made_several_times_the_worst_counts(results, tmp_path):
    folder = tmp_path / "server-tools-call-image-2026-01-31T00-00-00-000Z"
    folder.mkdir()
    made = [{"id": "a", "name": "A", "status": status} for status in ("SUCCESS", "FAILURE", "SUCCESS")]
    (folder / "checks.json").write_text(json.dumps(made))
    verdicts = results["read"](tmp_path)
    assert [(check.scenario, verdict.status) for check, verdict in verdicts.items()] == [
        ("tools-call-image", "FAILURE")
    ]
