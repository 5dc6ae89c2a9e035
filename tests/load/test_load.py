"""The tool itself, with few clients for a moment; how fast anything is depends on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pml_testing.postgres import HOW, programs

TOOL = Path(__file__).parent
LIMIT_S = 240


def measured(*words):
    command = [sys.executable, str(TOOL), "--json", "-", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_every_call_is_answered_and_kept():
    found = measured("--clients", "10", "--rate", "40", "--duration-s", "3", "--direct-rate", "10")
    assert found["calls"] == 120
    assert not found["errors"]
    assert (found["unanswered"], found["streams_lost"], found["rows_missing"]) == (0, 0, 0)
    for key in ("gateway_ms", "direct_ms", "sent_late_ms", "added_ms"):
        assert list(found[key]) == ["p50", "p90", "p99", "p999"]
    assert found["gateway_ms"]["p50"] > 0
    assert found["cpu_us_per_call"]["gateway"] > 0
    assert found["memory_mb"]["last"] > 10


def test_two_gateways_share_one_history():
    if programs() is None:
        pytest.skip(HOW)
    two = ("--gateways", "2", "--store", "postgres")
    found = measured(*two, "--clients", "8", "--rate", "20", "--duration-s", "2", "--direct-rate", "10")
    assert (found["calls"], found["errors"], found["rows_missing"]) == (80, {}, 0)
    assert set(found["cpu_us_per_call"]) == {"gateway", "server", "database"}


def test_idle_clients_are_told_apart_by_era():
    sessions, stateless = measured("--idle", "60")
    assert (sessions["era"], stateless["era"]) == ("2025-11-25", "2026-07-28")
    for era in (sessions, stateless):
        assert era["clients"] == 60
        assert era["streams_lost"] == 0
        assert era["open_files"] >= 60


def test_a_process_that_may_not_open_enough_files_is_told_so():
    lowered = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); "
    lowered += "resource.setrlimit = lambda *given: (_ for _ in ()).throw(ValueError('not permitted')); "
    lowered += f"sys.argv = ['load', '--idle', '1000']; runpy.run_path({str(TOOL)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", lowered], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 1
    assert "1833 open files are needed for one process, and 256 allowed: raise `ulimit -Hn`" in done.stderr
