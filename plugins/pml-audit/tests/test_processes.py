"""Real processes: killed while they write, two at once, and a disk that is full."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest

from pml_audit.files import Files
from pml_audit.rows import read
from pml_audit.trail import Trail, note
from pml_audit.verify import verify

WRITER = """
import sys
from pathlib import Path
from pml_audit.trail import Trail, note
name, count, batch = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
trail = Trail(Path(sys.argv[1]), file_bytes=int(sys.argv[5]), sync=sys.argv[6] == "sync")
n = 0
while count < 0 or n < count:
    trail.append([note("denied", principal=name, number=n + i, text="x" * 50) for i in range(batch)])
    n += batch
    sys.stdout.write(f"{n}\\n")
    sys.stdout.flush()
"""


def writer(folder, name, count=-1, batch=3, file_bytes=100_000, sync=""):
    words = [str(folder), name, str(count), str(batch), str(file_bytes), sync]
    return subprocess.Popen([sys.executable, "-c", WRITER, *words], stdout=subprocess.PIPE, text=True)


def acknowledged(process):
    told = process.stdout.read().split("\n")[:-1]
    return int(told[-1]) if told else 0


def numbers(folder, name):
    found = []
    for path in Files(folder).all():
        for line in path.read_bytes().split(b"\n")[:-1]:
            row = read(line)
            if row.get("principal") == name:
                found.append(row["number"])
    return found


def test_a_writer_killed_at_any_moment_loses_nothing_it_acknowledged_and_is_no_tampering(folder):
    rng = random.Random(7)
    for n in range(15):
        process = writer(folder, f"w{n}", file_bytes=20_000)
        process.stdout.readline()
        time.sleep(rng.uniform(0, 0.03))
        process.kill()
        process.wait()
        done = acknowledged(process)
        process.stdout.close()
        report = verify(folder)
        assert report.broken is None, report.broken
        found = numbers(folder, f"w{n}")
        assert found == list(range(len(found)))
        assert len(found) >= done
    assert len(Files(folder).full()) > 1


def test_two_processes_that_write_at_once_make_one_chain(folder):
    both = [writer(folder, name, count=600, file_bytes=30_000) for name in ("left", "right")]
    for process in both:
        assert acknowledged(process) == 600
        assert process.wait() == 0
        process.stdout.close()
    report = verify(folder)
    assert report.broken is None, report.broken
    assert report.rows == 1201
    assert report.notes == []
    for name in ("left", "right"):
        assert numbers(folder, name) == list(range(600))


def test_it_can_be_verified_while_others_write(folder):
    both = [writer(folder, name, file_bytes=30_000) for name in ("left", "right")]
    try:
        for process in both:
            process.stdout.readline()
        counts = []
        for _ in range(10):
            report = verify(folder)
            assert report.broken is None, report.broken
            counts.append(report.rows)
        assert counts == sorted(counts)
    finally:
        for process in both:
            process.kill()
            process.communicate()


def test_one_that_is_killed_does_not_keep_the_other_out(folder):
    process = writer(folder, "stopped")
    process.stdout.readline()
    os.kill(process.pid, signal.SIGSTOP)  # perhaps with the lock
    try:
        threading.Timer(0.2, process.kill).start()
        Trail(folder, file_bytes=100_000, sync=True).append([note("denied", principal="other", number=0)])
    finally:
        process.kill()
        process.communicate()
    assert numbers(folder, "other") == [0]
    assert verify(folder).broken is None


def test_whoever_holds_the_lock_too_long_is_told_of(folder, monkeypatch):
    from pml_audit import files

    monkeypatch.setattr(files, "LOCK_S", 0.05)
    trail = Trail(folder, file_bytes=100_000, sync=False)
    trail.append([note("denied")])
    with trail.files.locked(), pytest.raises(TimeoutError, match="another process has had the lock"):
        trail.append([note("denied")])
    trail.append([note("denied")])
    assert verify(folder).rows == 4 - 1


FULL = """
import resource, signal, sys
from pathlib import Path
from pml_audit.trail import Trail, note
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
trail = Trail(Path(sys.argv[1]), file_bytes=10_000_000, sync=False)
trail.append([note("denied", principal="before")])
size = trail.files.current.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 250, resource.RLIM_INFINITY))
try:
    trail.append([note("denied", principal=f"during{n}", text="x" * 60) for n in range(5)])
except OSError as exc:
    print(type(exc).__name__, trail.files.current.stat().st_size == size)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
trail.append([note("denied", principal=f"after{n}") for n in range(5)])
"""


def test_a_full_disk_leaves_no_half_rows(folder):
    assert resource.RLIMIT_FSIZE >= 0
    ran = subprocess.run([sys.executable, "-c", FULL, str(folder)], capture_output=True, text=True, check=True)
    assert ran.stdout == "OSError True\n"
    report = verify(folder)
    assert report.broken is None
    assert report.rows == 7
    kinds = [json.loads(line).get("principal") for line in (folder / "audit.jsonl").read_text().splitlines()]
    assert kinds == [None, "before", *(f"after{n}" for n in range(5))]
