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
LIMIT_S = 1300.0
"""Longest for all runs of one kind; less than the limit of a test [s]."""
REVISIONS = ("2025-11-25", "2026-07-28")


def report_of(folder, *words):
    """What came of all runs. Without the variable they are skipped, as the README promises; with it nothing is."""
    if "PML_E2E_NODE_DIR" not in os.environ:
        pytest.skip("needs Node: run tests/e2e/install_node_tools.sh DIR and set PML_E2E_NODE_DIR=DIR")
    report = folder / "report.json"
    command = [sys.executable, str(HERE), "--json", str(report), "--keep", str(folder / "runs"), *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=dict(os.environ))
    assert report.exists(), ran.stderr
    return json.loads(report.read_text())


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The scenarios for servers."""
    return report_of(tmp_path_factory.mktemp("conformance"))


@pytest.fixture(scope="module", params=["^(?!auth/)", "^auth/(?![m-z])", "^auth/[m-z]"])
def played(request, tmp_path_factory):
    """The scenarios for clients, in parts, because each starts some gateways, and a test has its limit."""
    return report_of(tmp_path_factory.mktemp("clients"), "--clients", "--only", request.param)


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


def test_what_a_client_passes_directly_it_passes_through_the_gateway(played):
    assert played["worse"] == [], "\n".join(played["worse"])


def test_each_scenario_that_differs_or_does_not_pass_has_a_sentence(played):
    assert (played["unexplained"], played["stale"]) == ([], [])


def test_the_documentation_has_the_results_of_clients(played):
    assert played["documented"], "Run python tests/conformance --clients --write-docs"


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


@pytest.fixture
def clients(monkeypatch):
    """The module of the scenarios for clients."""
    monkeypatch.syspath_prepend(str(HERE))
    return runpy.run_path(str(HERE / "clients.py"))


def outcome(clients, *statuses, passed=True):
    verdicts = {
        clients["Check"]("scenario", str(n), str(n)): clients["Verdict"](status) for n, status in enumerate(statuses)
    }
    return clients["Outcome"](passed, verdicts, "the end")


@pytest.mark.parametrize(
    ("statuses", "passed", "cell"),
    [
        (["SUCCESS", "INFO", "SUCCESS"], True, "2"),
        (["SUCCESS", "WARNING"], False, "1 of 2"),
        (["SKIPPED"], True, "none apply"),
        (["SUCCESS"], False, "1, but the client failed"),
        ([], False, "0, but the client failed"),
    ],
)
def test_the_table_says_what_came_of_a_scenario(clients, statuses, passed, cell):
    assert outcome(clients, *statuses, passed=passed).cell == cell


@pytest.mark.parametrize(
    ("direct", "through", "is_worse", "needs_a_sentence"),
    [
        (True, True, False, False),
        (True, False, True, True),
        (False, False, False, True),
        (False, True, False, True),
    ],
)
def test_a_scenario_that_does_not_pass_everywhere_needs_a_sentence(
    clients, direct, through, is_worse, needs_a_sentence
):
    scenario = clients["Scenario"]("auth/new", "2026-07-28")
    by_route = {
        "direct": outcome(clients, "SUCCESS", passed=direct),
        "through": outcome(clients, "SUCCESS", passed=through),
    }
    report = clients["ClientReport"]({scenario: by_route})
    assert bool(report.worse()) is is_worse
    assert bool(report.unexplained()) is needs_a_sentence
