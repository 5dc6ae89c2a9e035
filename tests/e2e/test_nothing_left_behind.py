"""When the client goes, everything that was started for it goes."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

GONE_S = 10.0


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def eventually(condition, within_s):
    """Whether the condition comes true in time; processes end when they do, and nobody tells a stranger."""
    until = time.monotonic() + within_s
    while not (met := condition()) and time.monotonic() < until:
        time.sleep(0.02)
    return met


@pytest.fixture
def gateway(site):
    """A gateway over three servers, one of which does not want to go, with all of them up."""
    site.configure(one=site.plain(), two=site.plain("--bad", "stubborn"), three=site.plain())
    environment = {**os.environ, **site.environment}
    with site.log.open("w") as log:
        process = subprocess.Popen(
            site.serve(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=site.folder, env=environment
        )
    assert eventually(lambda: len(list(site.pids.iterdir())) == 3, 20)
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def servers_of(site):
    return [int(path.name) for path in site.pids.iterdir()]


def test_all_servers_are_gone_when_the_client_closes_the_standard_input(site, gateway):
    gateway.stdin.close()
    assert gateway.wait(GONE_S) == 0
    assert not [pid for pid in servers_of(site) if alive(pid)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_servers_are_gone_after_a_signal(site, gateway, number):
    gateway.send_signal(number)
    assert gateway.wait(GONE_S) == 128 + number
    assert not [pid for pid in servers_of(site) if alive(pid)]
