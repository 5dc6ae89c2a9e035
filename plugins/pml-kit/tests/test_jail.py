"""The jail itself: limits, ties, descriptors, privileges, and what it says of itself."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pml_kit.jail import Jail, _jail, _kernel, _landlock, _priority, _view, _walls, missing, system_files, walls

PYTHON = Path(sys.executable).resolve()
FREE: dict[str, Any] = {"run": (*system_files(), str(PYTHON.parent.parent))}
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")


def run(code: str, jail: Jail | None, **how: Any) -> subprocess.CompletedProcess[str]:
    """An interpreter that runs ``code``, in the jail if there is one."""
    return subprocess.run(
        [PYTHON, "-I", "-S", "-c", code],
        preexec_fn=jail.preexec(keep=how.get("pass_fds", ())) if jail else None,
        env={},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        **how,
    )


LIMITS = {
    "private memory": ({"memory_bytes": 64 << 20}, "x = bytearray(100 << 20)"),
    "shared memory": ({"address_bytes": 256 << 20}, "import mmap\nmmap.mmap(-1, 300 << 20)"),
    "descriptors": ({"open_files": 32}, "import os\nfor _ in range(64): os.dup(0)"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_stops_what_runs_without_it(name: str) -> None:
    limit, code = LIMITS[name]
    assert run(code, Jail(**FREE)).returncode == 0
    assert run(code, Jail(**FREE, **limit)).returncode != 0


def test_a_file_grows_no_larger_than_its_limit(tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'file')!r}, 'wb', buffering=0).write(b'x' * (2 << 20))"
    run(code, Jail(**FREE, write=(str(tmp_path),)))
    assert (tmp_path / "file").stat().st_size == 2 << 20
    run(code, Jail(**FREE, write=(str(tmp_path),), file_bytes=1 << 20))
    assert (tmp_path / "file").stat().st_size == 1 << 20


def test_too_much_time_on_a_processor_ends_with_the_signal_for_it() -> None:
    code = "import time\nwhile time.process_time() < 1.3: pass"
    assert run(code, Jail(**FREE)).returncode == 0
    assert run(code, Jail(**FREE, cpu_s=1)).returncode == -signal.SIGXCPU


def test_what_is_granted_works(tmp_path: Path) -> None:
    (tmp_path / "read").mkdir()
    (tmp_path / "read/a.txt").write_text("a")
    (tmp_path / "write").mkdir()
    jail = Jail(**FREE, read=(str(tmp_path / "read"), "/no/such/place"), write=(str(tmp_path / "write"),))
    code = f"""
import os, shutil, threading, asyncio, socket
os.chdir({str(tmp_path)!r})
assert open("read/a.txt").read() == "a"
shutil.copy2("read/a.txt", "write/b.txt")
os.rename("write/b.txt", "write/c.txt")
os.mkdir("write/d")
os.rename("write/c.txt", "write/d/c.txt")
os.unlink("write/d/c.txt")
os.rmdir("write/d")
thread = threading.Thread(target=print, args=("thread",))
thread.start()
thread.join()
first, second = socket.socketpair()
first.send(b"x")
assert second.recv(1) == b"x"
asyncio.run(asyncio.sleep(0))
os.kill(os.getpid(), 0)
print(os.urandom(1) != b"", open("/dev/null", "w").write("x"))
"""
    ended = run(code, jail)
    assert (ended.stdout, ended.stderr) == ("thread\nTrue 1\n", "")


def test_reading_is_not_writing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    code = f"open({str(tmp_path / 'a.txt')!r}, 'w').write('b')"
    assert "PermissionError" in run(code, Jail(**FREE, read=(str(tmp_path),))).stderr
    assert (tmp_path / "a.txt").read_text() == "a"
    assert run(code, Jail(**FREE, write=(str(tmp_path),))).returncode == 0
    assert (tmp_path / "a.txt").read_text() == "b"


def test_processes_can_be_allowed() -> None:
    code = "import os\nif os.fork() == 0: os._exit(0)\nprint(os.wait()[1])"
    assert "BlockingIOError" in run(code, Jail(**FREE)).stderr
    assert run(code, Jail(**FREE, processes=True)).stdout == "0\n"


def test_it_has_no_privileges_and_gets_none() -> None:
    code = """
import ctypes
libc, data = ctypes.CDLL(None), (ctypes.c_uint32 * 6)()
libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), data)
print(list(data), libc.prctl(39, 0, 0, 0, 0), oct(__import__("os").umask(0)))
"""
    assert run(code, Jail(**FREE)).stdout == "[0, 0, 0, 0, 0, 0] 1 0o77\n"
    assert run(code, None).stdout.split()[-2] == "0"


def test_only_descriptors_that_are_kept_are_inherited() -> None:
    read, write = os.pipe()
    os.set_inheritable(read, True)
    os.set_inheritable(write, True)
    code = "import os\ndef open_(fd):\n  try: return bool(os.fstat(fd))\n  except OSError: return False\n"
    code += "print([fd for fd in range(3, 64) if open_(fd)])"
    try:
        without = run(code, None, close_fds=False).stdout
        assert read in json.loads(without)
        assert write in json.loads(without)
        assert json.loads(run(code, Jail(**FREE), close_fds=False).stdout) == []
        assert json.loads(run(code, Jail(**FREE), pass_fds=(write,)).stdout) == [write]
    finally:
        os.close(read)
        os.close(write)


def test_it_is_in_a_session_of_its_own() -> None:
    code = "import os\nprint(os.getsid(0) == os.getpid())"
    assert run(code, None).stdout == "False\n"
    assert run(code, Jail(**FREE)).stdout == "True\n"


def test_it_gives_way_to_everybody_else_and_cannot_take_that_back() -> None:
    code = """
import os
print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0) == os.SCHED_BATCH)
for back in (
    lambda: os.setpriority(os.PRIO_PROCESS, 0, 0),
    lambda: os.nice(-1),
    lambda: os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0)),
):
    try:
        back()
    except PermissionError:
        print("refused")
print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0) == os.SCHED_BATCH)
"""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    nice = min(before + _priority.NICE, 19)
    assert run(code, Jail(**FREE)).stdout == f"{nice} True\nrefused\nrefused\nrefused\n{nice} True\n"
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_what_is_put_into_the_jail_by_words_gives_way_as_a_session() -> None:
    words = [*Jail(**FREE).command(), str(PYTHON), "-I", "-S", "-c", "print(1, flush=True); input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        group = Path(f"/proc/{process.pid}/autogroup")
        nice = os.getpriority(os.PRIO_PROCESS, process.pid)
        said = group.read_text() if group.exists() else f"nice {_priority.NICE}\n"
        process.communicate(b"\n")
    assert nice == min(os.getpriority(os.PRIO_PROCESS, 0) + _priority.NICE, 19)
    assert said.endswith(f"nice {_priority.NICE}\n")


def test_a_session_whose_turn_has_not_come_is_to_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int) -> Any:
        def write(descriptor: int, data: bytes) -> int:
            raise OSError(number, "refused")

        return write

    monkeypatch.setattr(os, "open", lambda *_: os.dup(2))
    monkeypatch.setattr(os, "write", refuse(errno.EAGAIN))
    assert not _priority.group_gives_way("self")
    monkeypatch.setattr(os, "write", refuse(errno.EPERM))
    assert _priority.group_gives_way("self")


KEEPER = """
import os, subprocess, sys, time
from pml_kit.jail import Jail, system_files
jail = Jail(run=(*system_files(), sys.argv[1]), tied=sys.argv[2] == "tied")
child = subprocess.Popen([sys.argv[3], "-I", "-S", "-c", "import time; time.sleep(30)"], preexec_fn=jail.preexec())
print(child.pid, flush=True)
time.sleep(30)
"""


@pytest.mark.parametrize("how", ["tied", "free"])
def test_it_dies_with_the_gateway_if_it_is_tied(how: str) -> None:
    tied = how == "tied"
    words = [sys.executable, "-c", KEEPER, str(PYTHON.parent.parent), how, PYTHON]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdout
        child = int(keeper.stdout.readline())
        keeper.kill()
    try:
        assert ends_within(child, 5.0 if tied else 0.3) is tied
    finally:
        if not tied:
            os.kill(child, signal.SIGKILL)


def ends_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.anyio
async def test_it_stands_around_a_process_that_asyncio_starts_beside_other_threads() -> None:
    stop = threading.Event()
    beside = threading.Thread(target=stop.wait)
    beside.start()
    try:
        process = await asyncio.create_subprocess_exec(
            PYTHON, "-I", "-S", "-c", "open('/etc/passwd')", preexec_fn=Jail(**FREE).preexec(), env={}, stderr=-1
        )
        _, said = await process.communicate()
    finally:
        stop.set()
        beside.join()
    assert b"FileNotFoundError" in said or b"PermissionError" in said


def test_one_preparation_serves_many_processes_and_is_closed_in_the_end() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    enter = Jail(**FREE).preexec()
    for _ in range(3):
        subprocess.run([PYTHON, "-I", "-S", "-c", ""], preexec_fn=enter, env={}, check=True)
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 1
    del enter
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_nothing_is_started_when_a_wall_does_not_go_up() -> None:
    enter: Any = Jail(**FREE).preexec()
    os.close(enter._rules)
    broken = os.open("/dev/null", os.O_RDONLY)
    os.dup2(broken, enter._rules)
    if broken != enter._rules:
        os.close(broken)
    with pytest.raises(subprocess.SubprocessError, match="preexec_fn"):
        subprocess.run([PYTHON, "-c", ""], preexec_fn=enter, check=False)


def test_a_command_can_be_put_into_the_jail_by_words_alone() -> None:
    words = [*Jail(**FREE, cpu_s=5).command(), str(PYTHON), "-I", "-S", "-c", "open('/etc/passwd')"]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stderr
    assert "FileNotFoundError" in said or "PermissionError" in said


def test_the_process_directory_cannot_be_granted() -> None:
    with pytest.raises(ValueError, match="/proc/self"):
        Jail(read=("/proc/self",)).preexec()


def test_where_there_is_no_jail_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jail, "machine", lambda: "")
    monkeypatch.setattr(_walls, "machine", lambda: "")
    monkeypatch.setattr(_view, "refused", lambda: "not Linux")
    assert Jail().preexec() is None
    assert [wall.stands for wall in walls()] == [False] * 7
    assert "x86_64" in missing()[0].detail


def test_a_kernel_without_landlock_lacks_one_wall_and_keeps_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_landlock, "abi", lambda: 0)
    monkeypatch.setattr(_view, "refused", lambda: "tried without")
    assert [wall.name for wall in missing()] == ["files"]
    code = "open('/etc/passwd')\nimport socket\nsocket.socket()"
    said = run(code, Jail(**FREE)).stderr
    assert "in socket" in said or "socket.py" in said
    assert "PermissionError" in said


def test_a_kernel_without_filters_lacks_what_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_walls, "_has_filters", lambda: False)
    assert [wall.name for wall in missing()] == ["network", "processes", "kernel"]


def test_only_known_machines_have_a_jail(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _kernel.machine() in {"x86_64", "aarch64"}
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "", "", "", "riscv64")))
    assert _kernel.machine() == ""
