"""The PostgreSQL servers that tests start."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pml_testing.postgres import HOW, cluster, programs

pytestmark = pytest.mark.skipif(programs() is None, reason=HOW)
START_AND_WAIT = """
import sys, tempfile
from pml_testing.postgres import cluster
tempfile.tempdir = sys.argv[1]
with cluster() as server:
    print(server.url.rpartition(":")[2].partition("/")[0], flush=True)
    sys.stdin.read()
"""


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def gone_within(port, folder, limit_s=30.0):
    deadline = time.monotonic() + limit_s
    while answers(port) or list(folder.iterdir()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def folder():
    """Where the servers' folders are, open to whoever they run as; pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        made.chmod(0o1777)
        yield made


@pytest.mark.parametrize("killed", [True, False])
def test_a_server_ends_with_the_process_that_started_it_however_that_ends(folder, killed):
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        port = int(process.stdout.readline())
        assert answers(port)
        assert list(folder.iterdir())
        if killed:
            process.kill()
        else:
            process.stdin.close()
        process.wait(30)
    assert gone_within(port, folder)


@pytest.mark.parametrize(("durable", "waits"), [(True, "on"), (False, "off")])
def test_a_server_waits_for_the_disk_where_that_is_asked_for(durable, waits):
    with cluster(durable=durable) as server:
        psql = [str(Path(programs()) / "psql"), server.url, "-Atc", "SHOW fsync"]
        assert subprocess.run(psql, capture_output=True, text=True, check=True).stdout.strip() == waits
