"""What hangs ends, and says where: otherwise the whole matrix waits for it, and nobody learns what for."""

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[2] / "conftest.py"
IN_A_TEST = """
import time

def test_hangs():
    time.sleep(200)
"""
AFTER_THE_LAST = """
import threading
import time

def test_leaves_a_thread():
    threading.Thread(target=hangs).start()

def hangs():
    time.sleep(200)
"""


@pytest.fixture
def ended(tmp_path, monkeypatch):
    def run(tests, *options):
        (tmp_path / "conftest.py").write_text(CONFTEST.read_text("utf-8"), "utf-8")
        (tmp_path / "test_any.py").write_text(tests, "utf-8")
        # Collecting the test counts as well.
        monkeypatch.setenv("PML_TEST_LIMIT_S", "20")
        command = [sys.executable, "-m", "pytest", f"--rootdir={tmp_path}", str(tmp_path), *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    return run


@pytest.mark.parametrize(("tests", "where"), [(IN_A_TEST, "test_hangs"), (AFTER_THE_LAST, "hangs")])
def test_what_hangs_is_ended_and_says_where(ended, tests, where):
    run = ended(tests)
    assert run.returncode == 1
    assert "Timeout" in run.stderr
    assert f"in {where}\n" in run.stderr


def test_of_several_processes_the_one_that_hangs_is_ended_and_the_others_say_so(ended):
    run = ended(IN_A_TEST, "--numprocesses=1")
    assert run.returncode == 1
    assert "in test_hangs\n" in run.stderr
    assert "crashed while running" in run.stdout
