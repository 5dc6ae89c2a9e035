"""Killed at any moment, a gateway loses at most what it recorded in the last tenth of a second.

``PML_KILLS`` says how often; 200 for a release.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from pml_stores.sql.totals import TABLE
from pml_stores.sums import DAY, HOUR
from pml_testing.records import execution
from pml_testing.store_kills import KilledRecorder

KILLS = int(os.environ.get("PML_KILLS", "50"))
ROWS_PER_S = 3000


def missing(path, numbers):
    with closing(sqlite3.connect(path)) as connection:
        there = {id for (id,) in connection.execute("SELECT id FROM execution")}
    return [n for n in numbers if execution(n).id not in there]


def is_sound(path):
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO execution_word (execution_word) VALUES ('integrity-check')")
        (rows,) = connection.execute("SELECT count(*) FROM execution").fetchone()
        for grain in (HOUR, DAY):
            of_grain = f"SELECT coalesce(sum(executions), 0) FROM {TABLE} WHERE grain = {grain}"
            assert connection.execute(of_grain).fetchone() == (rows,)


def test_a_gateway_that_is_killed_again_and_again_keeps_what_it_recorded(path, record_property):
    seed = int(os.environ.get("PML_KILL_SEED") or random.SystemRandom().randint(0, 10**6))
    record_property("PML_KILL_SEED", seed)
    sys.stdout.write(f"PML_KILL_SEED={seed}\n")
    chance, last, put, old = random.Random(seed), 0, [], []
    began = time.monotonic()
    recorder = str(Path(__file__).with_name("recorder.py"))
    for kill in range(KILLS):
        reading = kill % 3 == 0
        how = (["moving"] if kill % 2 else []) + (["reading"] if reading else [])
        command = [sys.executable, recorder, str(path), str(last), str(ROWS_PER_S), *how]
        killed = KilledRecorder(command, last, chance, reading=reading)
        assert killed.put or killed.old or killed.last > last, killed.problem
        assert missing(path, killed.put) == [], f"put and lost, kill {kill}"
        assert missing(path, killed.old) == [], f"recorded long before kill {kill}, and lost"
        put, old, last = put + killed.put, old + killed.old, killed.last + 1
        if kill % 10 == 0:
            is_sound(path)
    assert missing(path, put + old) == []
    is_sound(path)
    assert put
    # Or all that was recorded would have been allowed to be lost.
    assert old
    sys.stdout.write(f"{KILLS} kills, {len(put)} put, {len(old)} recorded, {time.monotonic() - began:.0f} s\n")
