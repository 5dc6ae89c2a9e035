"""Killed at any moment, a gateway loses at most what it recorded in the last tenth of a second.

``PML_KILLS`` says how often; 200 for a release.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

from pml_store_sqlite import sums
from pml_testing.records import execution

KILLS = int(os.environ.get("PML_KILLS", "50"))
ROWS_PER_S = 3000
DURABLE_S = 0.1
LATELY_S = 0.2
LONGEST_S = 0.3
START_S = 30.0


class Killed:
    """One process that recorded, and was killed at a random moment."""

    def __init__(self, path, first, chance, *how):
        recorder = Path(__file__).with_name("recorder.py")
        command = [sys.executable, str(recorder), str(path), str(first), str(ROWS_PER_S), *how]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = threading.Timer(START_S, process.kill)
        deadline.start()
        try:
            with process:
                begun = process.stdout.readline()
                threading.Timer(chance.uniform(0, LONGEST_S), process.kill).start()
                raw = begun + process.stdout.read()
                self.problem = process.stderr.read().decode()
        finally:
            deadline.cancel()
        lines = [line.decode().split() for line in raw.splitlines(keepends=True) if line.endswith(b"\n")]
        self.put = [int(line[1]) for line in lines if line[0] == "p"]
        recorded = [(int(line[1]), float(line[2])) for line in lines if line[0] == "r"]
        ends = [float(line[2]) for line in lines if line[0] != "s"]
        # What a machine with more to do than it can takes from the writing thread, it takes from this one as well: at
        # once, or little by little where it reads without a pause, and the writer has half as much as this one at best.
        late = [(float(line[1]), float(line[2])) for line in lines if line[0] == "s"]
        at_once_s = max([late_s for late_s, _ in late], default=0.0)
        of_late_s = sum(late_s for late_s, at in late if "reading" in how and at > ends[-1] - LATELY_S)
        durable_s = DURABLE_S + max(4 * at_once_s, 2 * of_late_s)
        self.old = [n for n, at in recorded if ends and at < ends[-1] - durable_s]
        self.last = max([n for n, _ in recorded] + self.put, default=first)


def missing(path, numbers):
    with closing(sqlite3.connect(path)) as connection:
        there = {id for (id,) in connection.execute("SELECT id FROM execution")}
    return [n for n in numbers if execution(n).id not in there]


def is_sound(path):
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO execution_text (execution_text) VALUES ('integrity-check')")
        (rows,) = connection.execute("SELECT count(*) FROM execution").fetchone()
        for table in sums.TABLES:
            of_table = f"SELECT coalesce(sum(executions), 0) FROM {table.table} WHERE grain = {sums.HOUR}"
            assert connection.execute(of_table).fetchone() == (rows,)


def test_a_gateway_that_is_killed_again_and_again_keeps_what_it_recorded(path, record_property):
    seed = int(os.environ.get("PML_KILL_SEED") or random.SystemRandom().randint(0, 10**6))
    record_property("PML_KILL_SEED", seed)
    sys.stdout.write(f"PML_KILL_SEED={seed}\n")
    chance, last, put, old = random.Random(seed), 0, [], []
    began = time.monotonic()
    for kill in range(KILLS):
        how = (["moving"] if kill % 2 else []) + (["reading"] if kill % 3 == 0 else [])
        killed = Killed(path, last, chance, *how)
        assert killed.put or killed.old or killed.last > last, killed.problem
        assert missing(path, killed.put) == [], f"put and lost, kill {kill}"
        assert missing(path, killed.old) == [], f"recorded long before kill {kill}, and lost"
        put, old, last = put + killed.put, old + killed.old, killed.last + 1
        if kill % 10 == 0:
            is_sound(path)
    assert missing(path, put + old) == []
    is_sound(path)
    assert put
    sys.stdout.write(f"{KILLS} kills, {len(put)} put, {len(old)} recorded, {time.monotonic() - began:.0f} s\n")
