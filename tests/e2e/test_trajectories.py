"""The replay of gold actions: its own small suite, and a handful of the public ones where their data is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("PML_TRAJECTORIES_DIR", ROOT / "build" / "trajectories"))
WAYS = {"direct", "call", "plan", "select", "code", "stages"}


def replayed(suite, *words):
    command = [sys.executable, "-m", "tests.bench.trajectories", suite, "--data", str(DATA), "--json", "-", *words]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    (report,) = json.loads(ran.stdout)
    return report


def check(report):
    """Every way leaves the state that direct calls leave, and answers what is to be told."""
    for task in report["tasks"]:
        for costs in task["costs"].values():
            assert costs.keys() == WAYS
            for way, cost in costs.items():
                assert cost["same"], (task["id"], way)
                assert not cost["problem"], (task["id"], way)
                assert cost["told"] == task["told"], (task["id"], way)


def total(cost):
    return cost["definitions"] + cost["arguments"] + cost["results"]


def test_a_suite_of_our_own():
    report = replayed("notes")
    check(report)
    tasks = {task["id"]: task for task in report["tasks"]}
    assert {name: task["calls"] for name, task in tasks.items()} == {"move": 4, "delete": 2, "twice": 4}
    # A call that the tool refuses is refused in every way.
    assert tasks["twice"]["failing"] == 1
    assert tasks["move"]["origins"] == {"words": 3, "reference": 2, "constant": 0}
    alone, beside = tasks["move"]["costs"]["alone"], tasks["move"]["costs"]["beside"]
    assert [alone[way]["trips"] for way in ("direct", "call", "plan", "select", "code")] == [4, 5, 2, 2, 2]
    assert alone["select"]["results"] < alone["plan"]["results"] < alone["direct"]["results"]
    # Three tools of the gateway cost the same beside three hundred others; what the search finds may differ.
    assert total(beside["plan"]) < total(beside["direct"]) / 10
    assert total(beside["plan"]) < 2 * total(alone["plan"])


@pytest.mark.parametrize("suite", ["tau2", "bfcl", "bfcl_long", "agentdojo"])
def test_a_handful_of_the_public_ones(suite):
    if not (DATA / suite.partition("_")[0]).exists():
        pytest.skip(f"its data is not in {DATA}: python -m tests.bench.trajectories --install")
    check(replayed(suite, "--tasks", "5"))
