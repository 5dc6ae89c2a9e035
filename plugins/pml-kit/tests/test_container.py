"""A program in namespaces of its own: how it ends, what ends with it, what it may take up, and its network."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pml_kit.jail import Jail
from pml_kit.jail.container import Container
from pml_kit.jail.network import NAMES

PYTHON = Path(sys.executable).resolve()
SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", str(PYTHON.parent.parent))
SHELL = "/bin/sh"
LONG_S = 60.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")


AS_ANOTHER = """
import ctypes, json, os, sys
from pml_kit.jail import container, network
container._load()
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
container.main()
"""


def container(*, write: tuple[str, ...] = (), sockets: bool = False, **members: Any) -> Container:
    jail = Jail(run=SYSTEM, write=write, processes=True, open_files=1024, sockets=sockets)
    return Container(jail=jail, **{"temporary": ("/tmp",), **members})


@contextmanager
def started(
    made: Container, *words: str, channel: socket.socket | None = None, another: bool = False
) -> Iterator[subprocess.Popen[str]]:
    kept = () if channel is None else (channel.fileno(),)
    command = [*made.command(*kept), *words]
    if another:
        command = [sys.executable, "-c", AS_ANOTHER, *command[4:]]
    with subprocess.Popen(
        command, stdin=-1, stdout=-1, stderr=-1, text=True, start_new_session=True, pass_fds=kept
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(made: Container, *words: str) -> tuple[int, str]:
    with started(made, *words) as process:
        out, err = process.communicate(timeout=LONG_S)
        return process.returncode, out + err


def python(code: str) -> tuple[str, ...]:
    return (str(PYTHON), "-I", "-S", "-c", code)


@pytest.mark.parametrize(("line", "code"), [("exit 7", 7), ("kill -SEGV $$", -11), ("kill -TERM $$", -15), ("true", 0)])
def test_it_ends_as_its_program_ends(line: str, code: int) -> None:
    assert said(container(), SHELL, "-c", line) == (code, "")


TRAP = "trap 'echo heard; exit 3' TERM; echo ready; while :; do sleep 0.1; done"


def test_a_signal_to_the_group_reaches_the_program_which_decides() -> None:
    with started(
        container(), SHELL, "-c", "trap 'echo heard; exit 3' TERM; echo ready; while :; do sleep 0.1; done"
    ) as p:
        assert p.stdout
        assert p.stdout.readline() == "ready\n"
        os.killpg(p.pid, signal.SIGTERM)
        assert p.communicate(timeout=LONG_S)[0] == "heard\n"
        assert p.returncode == 3


def test_the_end_of_its_output_is_seen_while_it_runs_on() -> None:
    with started(container(), SHELL, "-c", "exec >&-; read line") as process:
        assert process.stdout
        assert process.stdout.read() == ""
        assert process.poll() is None


def outlives(token: str) -> bool:
    for other in Path("/proc").iterdir():
        try:
            if other.name.isdigit() and token.encode() in (other / "cmdline").read_bytes().split(b"\0")[:5]:
                return True
        except OSError:
            continue
    return False


def test_when_it_is_killed_all_that_is_inside_is_gone() -> None:
    token = f"left-{os.getpid()}"
    line = f"setsid sh -c 'while :; do sleep 1; done' {token} </dev/null >/dev/null 2>&1 & echo ready; read line"
    with started(container(), SHELL, "-c", line) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        deadline = time.monotonic() + LONG_S
        while not outlives(token) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert outlives(token)
        os.kill(process.pid, signal.SIGKILL)
        while outlives(token) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not outlives(token)


def test_temporary_folders_are_empty_have_a_size_and_vanish(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    code = f"""
import os
print(os.listdir("/tmp"), os.listdir({str(tmp_path)!r}))
open("/tmp/small", "wb").write(b"x" * 1000)
try:
    open("/tmp/large", "wb").write(b"x" * (3 << 20))
except OSError as error:
    print(error.strerror)
open({str(tmp_path / "kept/file")!r}, "w").write("x")
"""
    made = container(write=(str(tmp_path / "kept"),), temporary_bytes=1 << 20)
    top = str(tmp_path).split("/")[2] if str(tmp_path).startswith("/tmp/") else ""
    assert said(made, *python(code)) == (0, f"{[top] if top else []} ['kept']\nNo space left on device\n")
    assert (tmp_path / "kept/file").read_text() == "x"
    assert not Path("/tmp/small").exists()


def test_what_it_may_read_below_what_it_may_write_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a")
    jail = Jail(run=SYSTEM, read=(str(tmp_path),), processes=True)
    code = f"open({str(tmp_path / 'file')!r}, 'w')"
    assert (
        "Read-only file system"
        in said(Container(jail=jail, temporary=("/tmp", str(tmp_path.parent))), *python(code))[1]
    )
    assert (tmp_path / "file").read_text() == "a"


def test_what_it_may_write_below_what_it_may_read_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    jail = Jail(run=SYSTEM, read=(str(tmp_path),), write=(str(tmp_path / "in"),), processes=True)
    code = f"open({str(tmp_path / 'in/file')!r}, 'w').write('x'); open({str(tmp_path / 'out')!r}, 'w')"
    assert said(Container(jail=jail), *python(code))[0] == 1
    assert (tmp_path / "in/file").exists()
    assert not (tmp_path / "out").exists()


BOMB = "n=0; while [ $n -lt 60 ]; do sleep 100 & n=$((n+1)); done; echo all"


@pytest.mark.attack("Servers", "start processes without end (not as root, whom no limit of these holds)")
@pytest.mark.parametrize("most", [24, None])
def test_processes_have_a_limit(most: int | None) -> None:
    jail = Jail(run=SYSTEM[:-1], processes=True)  # another user may not look at where this Python is
    made = Container(jail=jail, temporary=("/tmp",), processes=most)
    with started(made, SHELL, "-c", BOMB, another=True) as process:
        out, err = process.communicate(timeout=LONG_S)
    assert out == ("all\n" if most is None else "")
    assert most is None or "fork" in err


CONNECT = """
import socket
for address in ("10.1.2.3", "NAME", "127.0.0.1"):
    print(socket.create_connection((address, 443), 30).recv(9).decode())
for address in ("10.1.2.4", "169.254.169.254", "1.1.1.1"):
    try:
        socket.create_connection((address, 443), 30)
    except OSError as error:
        print(error.strerror)
"""
ANY_PYTHON = "/usr/bin/python3"


@pytest.mark.parametrize("another", [False, pytest.param(True, marks=pytest.mark.skipif(
    not Path(ANY_PYTHON).exists(), reason="another user may not look at where this Python is"
))])  # fmt: skip
def test_its_network_has_what_is_given_to_it_and_nothing_else(*, another: bool) -> None:
    ours, theirs = socket.socketpair()
    jail = Jail(run=SYSTEM[:-1] if another else SYSTEM, processes=True, sockets=True)
    made = Container(jail=jail, network=True, ports=(443,), addresses=("10.1.2.3",))
    name = NAMES[0].rpartition(".")[0] + ".77"
    words = (ANY_PYTHON if another else str(PYTHON), "-I", "-S", "-c", CONNECT.replace("NAME", name))
    with ours, theirs, started(made, *words, channel=theirs, another=another) as process:
        theirs.close()
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 8)
        resolver, listener = (socket.socket(fileno=one) for one in descriptors)
        with resolver, listener:
            for _ in range(3):
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(connection.getsockname()[0].encode())
            out, err = process.communicate(timeout=LONG_S)
    assert (out.split("\n")[:3], err) == (["10.1.2.3", name, "127.0.0.1"], "")
    assert out.count("Network is unreachable\n") == 3


def test_without_namespaces_there_is_the_jail_alone() -> None:
    code = "import os; print(os.getpid() > 9); open('/etc/passwd')"
    ended, text = said(container(namespaces=False), *python(code))
    assert ended == 1
    assert text.startswith("True\n")
    assert "PermissionError" in text


def test_a_program_that_cannot_run_is_told_of() -> None:
    ended, text = said(container(), "/etc/passwd")
    assert ended == 70
    assert "/etc/passwd cannot be started in its sandbox: " in text


def test_a_folder_that_is_only_there_is_empty_and_stays_so(tmp_path: Path) -> None:
    code = """
import os
print(os.path.isdir("/home/ada"), os.path.exists("/home/ada/.ssh"))
try:
    open("/home/ada/new", "w")
except OSError:
    print("refused")
"""
    assert said(container(folders=("/home/ada",)), *python(code)) == (0, "True False\nrefused\n")
