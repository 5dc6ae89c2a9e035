"""Ways from a jail to other processes of the same user, made by real code; the kernel's second wall is taken away."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pml_sandbox.jail import Jail, _landlock, system_files, walls

PYTHON = Path(sys.executable).resolve()
FREE: dict[str, Any] = {"run": (*system_files(), str(PYTHON.parent.parent))}
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")

SIGNALS = {
    "F_SETOWN": "fcntl.fcntl(a, 8, victim)",
    "F_SETOWN of a command with bits above 32": "raw_fcntl(a.fileno(), ctypes.c_ulong(1 << 32 | 8), victim)",
    "F_SETOWN_EX": "fcntl.fcntl(a, 15, struct.pack('=ii', 1, victim))",
    "FIOSETOWN": "fcntl.ioctl(a, 0x8901, struct.pack('=i', victim))",
    "SIOCSPGRP": "fcntl.ioctl(a, 0x8902, struct.pack('=i', victim))",
}
ASYNC = {"F_SETFL": "fcntl.fcntl(a, 4, 0o20000)", "FIOASYNC": "fcntl.ioctl(a, 0x5452, struct.pack('=i', 1))"}
SIGNAL = """
import ctypes, fcntl, socket, struct
victim = {victim}
raw_fcntl = ctypes.CDLL(None).fcntl
a, b = socket.socketpair()
for step in {steps!r}:
    try:
        eval(step)
    except OSError as error:
        print(error.errno)
b.send(b"x")
print("tried")
"""


def run(code: str, jail: Jail | None) -> str:
    """What an interpreter says that runs ``code``, in the jail if there is one."""
    ended = subprocess.run(
        [PYTHON, "-I", "-S", "-c", code],
        preexec_fn=jail.preexec() if jail else None,
        env={},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return ended.stdout + ended.stderr


@pytest.fixture(params=["inside", "outside"])
def jail(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Jail | None:
    """A jail on a kernel that does not know of scopes; outside of it, the attempt has to get through."""
    monkeypatch.setattr(_landlock, "abi", lambda: 5)
    return Jail(**FREE) if request.param == "inside" else None


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user."""
    with subprocess.Popen(["/bin/sleep", "30"]) as process:
        yield process
        process.kill()


@pytest.mark.attack("Jail", "kill another process of the user by a descriptor that signals it (fcntl, ioctl)")
@pytest.mark.parametrize("way", SIGNALS)
def test_no_descriptor_signals_another_process(jail: Jail | None, victim: subprocess.Popen[bytes], way: str) -> None:
    steps = [SIGNALS[way], "fcntl.fcntl(a, 10, 9)", *ASYNC.values()]
    said = run(SIGNAL.format(victim=victim.pid, steps=steps), jail)
    assert said.endswith("tried\n")
    if jail is None:
        assert victim.wait(10) == -9
    else:
        assert said.count("1\n") >= 3
        assert victim.poll() is None


@pytest.mark.attack("Jail", "have a descriptor signal whoever owns it (O_ASYNC, FIOASYNC), lease files, watch folders")
@pytest.mark.parametrize("step", [*ASYNC.values(), "fcntl.fcntl(0, 1024, 0)", "fcntl.fcntl(0, 1026, 1)"])
def test_commands_that_signal_hold_up_or_watch_are_refused(step: str) -> None:
    said = run(SIGNAL.format(victim=0, steps=[step]), Jail(**FREE))
    assert said == "1\ntried\n"


def test_other_commands_of_descriptors_go_on_working() -> None:
    code = """
import fcntl, os, socket
a, b = socket.socketpair()
a.setblocking(False)
fcntl.fcntl(a, fcntl.F_SETFL, fcntl.fcntl(a, fcntl.F_GETFL) | os.O_APPEND)
os.set_blocking(b.fileno(), False)
os.set_inheritable(os.dup(0), True)
import ctypes
assert ctypes.CDLL(None).prctl(15, b"name", 0, 0, 0) == 0
print(os.get_blocking(b.fileno()))
"""
    assert run(code, Jail(**FREE)) == "False\n"


QUEUES = {
    "read a message": ("msgget", "libc.msgrcv({id}, buffer, 64, 0, 0o4000) > 0"),
    "send a message": (
        "msgget",
        "libc.msgsnd({id}, struct.pack('=QI', 1, 0), 4, 0o4000) == 0",
    ),
    "remove a queue": ("msgget", "libc.msgctl({id}, 0, None) == 0"),
    "set a semaphore": ("semget", "libc.semctl({id}, 0, 16, 7) == 0"),
    "raise a semaphore": ("semget", "libc.semop({id}, struct.pack('=HhH', 0, 1, 0), 1) == 0"),
    "remove memory": ("shmget", "libc.shmctl({id}, 0, None) == 0"),
    "attach memory": ("shmget", "libc.shmat({id}, None, 0) != -1"),
}
QUEUE = "import ctypes, struct\nlibc = ctypes.CDLL(None)\nbuffer = ctypes.create_string_buffer(80)\nprint({attempt})"


@pytest.mark.attack("Jail", "use message queues, semaphores and shared memory of others by guessed ids")
@pytest.mark.parametrize("name", QUEUES)
def test_what_processes_share_by_number_is_out_of_reach(jail: Jail | None, name: str) -> None:
    make, attempt = QUEUES[name]
    libc = ctypes.CDLL(None)
    shared = getattr(libc, make)(0, *([] if make == "msgget" else [1]), 0o1600)
    assert shared >= 0
    try:
        if name == "read a message":
            assert libc.msgsnd(shared, ctypes.create_string_buffer(b"\x01" + bytes(7) + b"mine"), 4, 0) == 0
        said = run(QUEUE.format(attempt=attempt.format(id=shared)), jail)
    finally:
        control = {"msgget": libc.msgctl, "shmget": libc.shmctl}.get(make)
        _ = control(shared, 0, None) if control else libc.semctl(shared, 0, 0)
    assert said == ("True\n" if jail is None else "False\n")


@pytest.mark.attack("Jail", "remove a POSIX message queue of another process by its name")
def test_a_queue_is_not_removed_by_name(jail: Jail | None) -> None:
    libc, name = ctypes.CDLL(None), f"/pml-test-{os.getpid()}".encode()
    queue = libc.mq_open(name, os.O_CREAT | os.O_RDWR, 0o600, None)
    assert queue >= 0
    try:
        said = run(f"import ctypes\nprint(ctypes.CDLL(None).mq_unlink({name!r}))", jail)
        gone = libc.mq_unlink(name) != 0
    finally:
        os.close(queue)
    assert (said, gone) == (("0\n", True) if jail is None else ("-1\n", False))


@pytest.mark.attack("Jail", "untie code from the gateway's life by prctl(PR_SET_PDEATHSIG, 0)")
def test_code_does_not_untie_itself() -> None:
    code = "import ctypes\nprint(ctypes.CDLL(None).prctl({0}, 0, 0, 0, 0))"
    for option in ("1", "ctypes.c_ulong(1 << 32 | 1)"):
        assert run(code.format(option), None) == "0\n"
        assert run(code.format(option), Jail(**FREE)) == "-1\n"


def test_the_walls_say_what_this_kernel_does_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {wall.name: wall.detail for wall in walls()}
    assert "stat" in said["files"]
    for version, twice in ((5, False), (6, True)):
        monkeypatch.setattr(_landlock, "abi", lambda version=version: version)
        processes = next(wall for wall in walls() if wall.name == "processes")
        assert processes.stands
        assert ("Linux 6.12" in processes.detail) is not twice
