"""Several processes that write one lock file: none loses what another wrote, or is held up by one that is gone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from pml_catalog.lock import replacement
from pml_catalog.lock.lock_file import LockError, LockFile, ServerLock

TOOL = {"name": "t", "inputSchema": {"type": "object"}}
WRITER = """
import sys
from pathlib import Path
from pml_catalog.lock.lock_file import LockFile, ServerLock
path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(count):
    def change(file, number=number):
        tools = dict(file.servers["s"].tools) if "s" in file.servers else {}
        tool = f"{name}_{number}"
        return file.with_server("s", ServerLock({**tools, tool: {"name": tool, "inputSchema": {"type": "object"}}}))
    LockFile.changed(path, change)
"""
HOLDER = """
import sys, time
from pathlib import Path
from pml_catalog.lock.replacement import replacement
with replacement(Path(sys.argv[1])) as write:
    print("held", flush=True)
    time.sleep(600)
"""


def test_nothing_that_one_of_several_processes_takes_is_lost(tmp_path):
    path = tmp_path / "pml.lock"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name, "15"]) for name in ("a", "b", "c", "d")]
    assert [writer.wait(120) for writer in writers] == [0] * 4
    tools = LockFile.read(path).servers["s"].tools
    assert set(tools) == {f"{name}_{number}" for name in "abcd" for number in range(15)}
    assert [one.name for one in tmp_path.iterdir()] == ["pml.lock"]


def test_one_that_is_killed_holds_nobody_up_and_one_that_hangs_is_said(tmp_path, monkeypatch):
    path = tmp_path / "pml.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        monkeypatch.setattr(replacement, "WAIT_S", 0.05)
        with pytest.raises(LockError, match="somebody else has been writing it"):
            LockFile.changed(path, lambda file: file.with_server("s", ServerLock({"t": TOOL})))
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    finally:
        holder.kill()
        holder.stdout.close()
    monkeypatch.undo()
    LockFile.changed(path, lambda file: file.with_server("s", ServerLock({"t": TOOL})))
    assert set(json.loads(path.read_text())["servers"]["s"]["tools"]) == {"t"}


def test_what_is_refused_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "pml.lock"
    LockFile.changed(path, lambda file: file.with_server("s", ServerLock({"t": TOOL})))
    before = path.read_bytes()

    def refuse(file):
        raise LockError("no")

    with pytest.raises(LockError, match="no"):
        LockFile.changed(path, refuse)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["pml.lock"]
    if sys.platform == "linux":
        (tmp_path / ".pml.lock.new").mkdir()
        with pytest.raises(LockError, match="cannot be written"):
            LockFile.changed(path, lambda file: file.with_server("s", None))
