from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pml_kit.processes import is_surely_gone, machine, started

needs_proc = pytest.mark.skipif(not machine(), reason="the system does not tell")


@needs_proc
def test_a_process_that_ended_is_gone_and_one_that_lives_is_not():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        begun = started(process.pid)
        assert begun
        assert not is_surely_gone(process.pid, begun, machine())
        assert is_surely_gone(process.pid, f"{begun}0", machine())
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert started(process.pid) == "", "it ended and was not waited for"
        assert is_surely_gone(process.pid, begun, machine())


def test_what_cannot_be_told_is_not_surely_gone():
    assert not is_surely_gone(1, "", machine())
    assert not is_surely_gone(1, "1", "")
    assert not is_surely_gone(1, "1", "another machine")
    assert started(0) == ""
