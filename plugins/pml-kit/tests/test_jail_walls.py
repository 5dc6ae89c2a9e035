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

from pml_kit.jail import Jail, _landlock, _view, missing, system_files, walls

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


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that is not granted, with a file and a link."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside/file").write_text("12345")
    (tmp_path / "outside/link").symlink_to("/somewhere/else")
    return tmp_path / "outside"


NAMES = {
    "the size of a file (stat)": "os.stat({outside!r} + '/file').st_size",
    "the same from the root's descriptor": "os.stat({outside!r}[1:] + '/file', dir_fd=os.open('/', os.O_PATH)).st_size",
    "the same from the folder upwards": "os.stat('../outside/file').st_size",
    "the same from a folder's descriptor": "os.stat('../outside/file', dir_fd=os.open('.', os.O_PATH)).st_size",
    "the same by statx": "libc.statx(-100, {outside!r}.encode() + b'/file', 0, 0xfff, buffer) == 0 or 1/0",
    "where a link leads (readlink)": "os.readlink({outside!r} + '/link')",
    "whether a file is there (access)": "os.access({outside!r} + '/file', os.F_OK) or 1/0",
    "a descriptor of it (O_PATH)": "os.open({outside!r} + '/file', os.O_PATH)",
    "an attribute of it (getxattr)": "os.listxattr({outside!r} + '/file')",
    "how full its disk is (statfs)": "os.statvfs({outside!r})",
    "a folder to be in (chdir)": "os.chdir({outside!r})",
    "which processes there are": "os.stat('/proc/1').st_uid",
    "where another process is": "os.readlink(f'/proc/{{os.getppid()}}/cwd')",
    "the users' list": "os.stat('/etc/passwd').st_mtime",
}
NAME = """
import ctypes, os
libc = ctypes.CDLL(None)
buffer = ctypes.create_string_buffer(512)
os.chdir({inside!r})
try:
    print("told", {attempt})
except (OSError, ZeroDivisionError) as exc:
    print("nothing")
"""


@pytest.mark.attack("Jail", "ask for names, sizes, times and links of files outside (stat, readlink, access, O_PATH)")
@pytest.mark.skipif(bool(_view.refused()), reason=f"no namespaces here: {_view.refused()}")
@pytest.mark.parametrize("what", NAMES)
def test_what_is_outside_has_no_name(outside: Path, what: str) -> None:
    inside = str(outside.with_name("inside"))
    code = NAME.format(inside=inside, attempt=NAMES[what].format(outside=str(outside)))
    assert run(code, None).startswith("told")
    assert run(code, Jail(**FREE, write=(inside,))) == "nothing\n"


@pytest.mark.skipif(bool(_view.refused()), reason=f"no namespaces here: {_view.refused()}")
def test_what_is_granted_is_where_it_was_under_all_its_names(tmp_path: Path) -> None:
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "real/deep/file").write_text("content")
    (tmp_path / "link").symlink_to("real/deep")
    (tmp_path / "file link").symlink_to(tmp_path / "real/deep/file")
    (tmp_path / "write").mkdir()
    jail = Jail(**FREE, read=(str(tmp_path / "link"), str(tmp_path / "file link")), write=(str(tmp_path / "write"),))
    code = f"""
import os
os.chdir({str(tmp_path)!r})
print([open(name).read() for name in ("link/file", "file link", "real/deep/file")], os.getuid())
open("write/new", "w").write("made")
for name in ("new", "real/new", "write/../new"):
    try:
        open(name, "w")
    except OSError:
        print("refused")
"""
    assert run(code, jail) == f"{['content'] * 3} {os.getuid()}\n" + "refused\n" * 3
    assert (tmp_path / "write/new").read_text() == "made"
    assert (tmp_path / "write/new").stat().st_uid == os.getuid()


def test_without_namespaces_code_runs_and_the_doctor_says_what_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_view, "refused", lambda: "Operation not permitted")
    (names,) = (wall for wall in walls() if wall.name == "names")
    assert not names.stands
    for part in ("stat", "readlink", "Operation not permitted", "user.max_user_namespaces", "seccomp profile"):
        assert part in names.detail
    assert names not in missing()
    assert run("import os\nprint(os.path.exists('/etc/passwd'))", Jail(**FREE)) == "True\n"


def test_the_walls_say_what_this_kernel_does_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, twice in ((5, False), (6, True)):
        monkeypatch.setattr(_landlock, "abi", lambda version=version: version)
        processes = next(wall for wall in walls() if wall.name == "processes")
        assert processes.stands
        assert ("Linux 6.12" in processes.detail) is not twice
