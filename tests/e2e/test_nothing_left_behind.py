"""When the gateway goes, however it goes, everything that was started for it goes."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pml_testing.transport_ends import alive

START_S = 90.0
ALL_GONE_S = 120.0
"""Longest that it may take on a busy machine. What is left behind stays for hours [s]."""
STARTING_S = 2.0
EXIT_S = 120.0
TREE = Path(__file__).with_name("servers") / "tree.py"
UV = shutil.which("uv")
NPX = shutil.which("npx")


def eventually(condition, within_s):
    """Whether the condition comes true in time; processes end when they do, and nobody tells a stranger."""
    until = time.monotonic() + within_s
    while not (met := condition()) and time.monotonic() < until:
        time.sleep(0.02)
    return met


class Trees:
    """Servers with all that is below them."""

    def __init__(self, site):
        self.site, self.servers, self.expected = site, {}, 0

    def _tree(self, shape):
        return [sys.executable, "-I", "-S", str(TREE), str(self.site.pids), shape]

    def direct(self, shape):
        """The server itself and its child."""
        self.servers[shape] = self._tree(shape)
        self.expected += 2

    def as_npx_does(self, shape):
        """``npx`` runs ``sh -c``, that runs Node, that runs the server."""
        command = shlex.join([*self._tree("wrapper"), *self._tree(shape)])
        self.servers[f"npx-{shape}"] = ["sh", "-c", f"{command}; exit $?"]
        self.expected += 3

    def as_uvx_does(self, shape):
        """``uvx`` is a parent that runs Python below itself."""
        if UV is None:
            wrapper = [*self._tree("wrapper"), sys.executable]
        else:
            wrapper = [UV, "run", "--no-project", "--offline", "--quiet", "--python", sys.executable, "python"]
        self.servers[f"uvx-{shape}"] = [*wrapper, *self._tree(shape)[1:]]
        self.expected += 2 + (UV is None)

    @property
    def processes(self):
        """What runs, by process id."""
        names = (path.name.partition("-") for path in self.site.pids.iterdir())
        return {int(pid): what for pid, _, what in names}

    def left(self):
        return {pid: what for pid, what in self.processes.items() if alive(pid)}


@pytest.fixture
def trees(site):
    """One of each kind; whatever a test leaves of them is killed."""
    made = Trees(site)
    for shape in ("plain", "deaf", "session", "daemon", "deaf-daemon"):
        made.direct(shape)
    for shape in ("plain", "deaf", "deaf-daemon"):
        made.as_npx_does(shape)
        made.as_uvx_does(shape)
    yield made
    for pid in made.left():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


HEED = """
import os, signal, sys
for number in (signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
HEEDING = [sys.executable, "-c", HEED]
"""Begins a command: nohup and shells have what they start ignore these signals, and so would the gateway."""


@pytest.fixture
def gateway(site, trees):
    """A gateway over all of them, with all of them up."""
    site.configure(**trees.servers)
    environment = {**os.environ, **site.environment}
    with site.log.open("w") as log:
        process = subprocess.Popen(
            [*HEEDING, *site.serve()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=site.folder,
            env=environment,
        )
    try:
        assert eventually(lambda: len(trees.processes) == trees.expected, START_S), site.log.read_text()
        assert trees.left() == trees.processes
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


ENDS = {
    "the client closes the standard input": (lambda gateway: gateway.stdin.close(), 0),
    "the client is killed": (lambda gateway: (gateway.stdin.close(), gateway.stdout.close()), 0),
    **{
        number.name: (lambda gateway, number=number: gateway.send_signal(number), status)
        for number, status in (
            (signal.SIGTERM, 128 + signal.SIGTERM),
            (signal.SIGINT, 128 + signal.SIGINT),
            (signal.SIGKILL, -signal.SIGKILL),
            (signal.SIGSEGV, -signal.SIGSEGV),
            (signal.SIGABRT, -signal.SIGABRT),
        )
    },
}


@pytest.mark.parametrize(("end", "status"), ENDS.values(), ids=ENDS)
def test_nothing_is_left_when(gateway, trees, end, status):
    start = time.monotonic()
    end(gateway)
    everything = eventually(lambda: not trees.left(), ALL_GONE_S)
    assert everything, f"after {time.monotonic() - start:.1f} s still there: {trees.left()}"
    # Where ending takes it too long, as on a machine that does much else, a gateway that was told to end is ended.
    late = {-signal.SIGALRM} if status > 128 else set()
    assert gateway.wait(EXIT_S) in {status} | late
    assert len(trees.processes) == trees.expected


def test_nothing_is_left_of_servers_that_were_still_starting(site, trees):
    """Between its start and its first answer a server is not yet anybody's."""
    site.configure(**trees.servers)
    environment = {**os.environ, **site.environment}
    with site.log.open("w") as log:
        process = subprocess.Popen(
            site.serve(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=site.folder, env=environment
        )
    with process:
        assert eventually(lambda: trees.processes, START_S)
        process.kill()
        process.wait()
    time.sleep(STARTING_S)  # what was being started when the gateway was killed has noted itself by then
    assert eventually(lambda: not trees.left(), ALL_GONE_S), trees.left()


@pytest.mark.skipif(NPX is None, reason="needs npx, of Node")
def test_nothing_is_left_of_a_real_npx(site, trees):
    folder = site.folder / "package"
    binary = folder / "node_modules" / ".bin" / "tree-server"
    binary.parent.mkdir(parents=True)
    (folder / "package.json").write_text('{"name": "nobody", "version": "0.0.0"}')
    deaf = [*trees._tree("deaf")]
    program = f"require('child_process').spawnSync({deaf[0]!r}, {deaf[1:]!r}, {{stdio: 'inherit'}})"
    binary.write_text(f"#!/usr/bin/env node\n{program}\n")
    binary.chmod(0o755)
    site.configure(npx=["sh", "-c", f"cd {shlex.quote(str(folder))} && exec {NPX} --offline --no tree-server"])
    environment = {**os.environ, **site.environment}
    with site.log.open("w") as log:
        process = subprocess.Popen(
            site.serve(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=site.folder, env=environment
        )
    with process:
        assert eventually(lambda: len(trees.processes) == 2, START_S), site.log.read_text()
        parents = {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] for pid in trees.processes}
        assert len(parents) == 2
        process.kill()
        assert eventually(lambda: not trees.left(), ALL_GONE_S), trees.left()
