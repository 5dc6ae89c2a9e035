"""Who is alive."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pml_executor_dbos import liveness
from pml_executor_dbos.liveness import LivenessMonitor, Worker, is_gone
from pml_kit.processes import machine, started

HERE = machine()
linux = pytest.mark.skipif(not HERE, reason="only Linux tells when a process began: elsewhere the lease alone counts")


def worker(id_: str = "/x", *, beat: int = 1, on: str = "elsewhere", pid: int = 1, since: str = "1") -> Worker:
    return Worker(id_, beat, on, pid, since)


@linux
def test_this_process_is_not_gone() -> None:
    assert not is_gone(worker(on=HERE, pid=os.getpid(), since=started(os.getpid())), HERE)


@linux
def test_a_process_that_ended_is_gone_even_before_its_parent_has_looked() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    since = started(process.pid)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(worker(on=HERE, pid=process.pid, since=since), HERE)
    process.wait()
    assert is_gone(worker(on=HERE, pid=process.pid, since=since), HERE)


@linux
def test_another_process_with_the_same_id_is_another() -> None:
    assert is_gone(worker(on=HERE, pid=os.getpid(), since="1"), HERE)


def test_nothing_is_said_of_other_machines() -> None:
    assert not is_gone(worker(), HERE)
    assert not is_gone(worker(on=""), "")


def test_silence_for_the_whole_lease_is_death(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(liveness.time, "monotonic", lambda: now)
    watch = LivenessMonitor(3.0, worker("/me", on="here"))
    assert watch.dead({"/x": worker()}) == set()
    now += 2.9
    assert watch.dead({"/x": worker(), "/me": worker("/me")}) == set()
    now += 0.1
    assert watch.dead({"/x": worker(beat=2)}) == set(), "it beat just in time"
    now += 3.0
    assert watch.dead({"/x": worker(beat=2)}) == {"/x"}


def test_one_that_left_and_came_back_has_a_whole_lease_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(liveness.time, "monotonic", lambda: now)
    watch = LivenessMonitor(3.0, worker("/me", on="here"))
    watch.dead({"/x": worker()})
    now += 5
    watch.dead({})
    assert watch.dead({"/x": worker()}) == set()


def test_whoever_had_my_own_name_before_me_is_dead() -> None:
    watch = LivenessMonitor(3.0, worker("gw/2", on="here"))
    assert watch.dead({"gw/1": worker("gw/1"), "other/1": worker("other/1"), "gw/2": worker("gw/2")}) == {"gw/1"}
