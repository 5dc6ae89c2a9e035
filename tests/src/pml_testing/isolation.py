"""Attempts to get out of a sandbox, and the things that show whether one did.

:data:`pml_testing.isolation_python.ATTEMPTS` and :data:`pml_testing.isolation_javascript.ATTEMPTS` are code; a
:class:`World` is what they try to reach: files, sockets, processes and a tool that they may not call. Nothing is taken
from what the code says of itself alone: the sockets count, the files are looked at, the processes are asked.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pml_hookspecs import CodeRun, Failure, Outcome, Status, Task, ToolCall, encode

from .fakes import FakeCatalog, FakeRun, FakeServices, entry, outcome

if TYPE_CHECKING:
    from pml_hookspecs import Executor, Run

WON = "ESCAPED"
"""What code returns that did what it must not."""
ENVIRONMENT = "PML_ISOLATION_SECRET"
ALLOWED = ("open:echo", "open:slow")
"""Tools that attempts may call; all others are out of their reach."""
FORBIDDEN = "closed:door"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One way to try it."""

    name: str
    group: str
    """``files``, ``environment``, ``network``, ``processes``, ``kernel``, ``limits``, ``bridge`` or ``tricks``."""
    language: str
    code: str
    """Body of a function. ``@NAME@`` stands for what :meth:`World.fill` puts there."""
    folder: bool = False
    """Runs with a folder that it may use."""
    bare: bool = True
    """The same code gets through when nothing holds it. False where that would harm the machine that runs the tests,
    or where what it tries exists inside a sandbox only."""
    privileged: bool = False
    """Machines may refuse it to anybody, or to anybody but root, by themselves."""
    timeout_s: float = 5.0
    """Longest time for the code [s]."""
    ends: tuple[str, ...] = ()
    """Parts of codes of failures, one of which its outcome has; empty for any outcome."""

    @property
    def id(self) -> str:
        """For pytest."""
        return f"{self.group}: {self.name}"


class World:
    """What a sandbox keeps code from, made anew for each test module and looked at after each attempt."""

    def __init__(self) -> None:
        self.secret = secrets.token_hex(16)
        self.place = Path(tempfile.mkdtemp(prefix="pml-isolation-"))
        self.outside, self.folder = self.place / "outside", self.place / "folder"
        self._sockets: dict[str, socket.socket] = {}
        self._victim: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        os.environ[ENVIRONMENT] = self.secret
        self._listen()
        self.reset()
        return self

    def __exit__(self, *_: object) -> None:
        os.environ.pop(ENVIRONMENT, None)
        self._end_victim()
        for each in self._sockets.values():
            each.close()
        shutil.rmtree(self.place)

    def _listen(self) -> None:
        wanted: dict[str, tuple[int, int, Any]] = {
            "TCP": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "UDP": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        }
        if sys.platform != "win32":
            wanted |= {
                "STREAM": (socket.AF_UNIX, socket.SOCK_STREAM, str(self.place / "stream")),
                "DATAGRAM": (socket.AF_UNIX, socket.SOCK_DGRAM, str(self.place / "datagram")),
            }
        if sys.platform == "linux":
            wanted["ABSTRACT"] = (socket.AF_UNIX, socket.SOCK_STREAM, f"\0pml-{self.secret[:8]}")
        for name, (family, kind, address) in wanted.items():
            made = self._sockets[name] = socket.socket(family, kind)
            made.bind(address)
            if kind == socket.SOCK_STREAM:
                made.listen(64)
            made.setblocking(False)
        # As a careless parent does it: without close-on-exec.
        self._sockets["TCP"].set_inheritable(True)

    def reset(self) -> None:
        """Put everything back as it was before any attempt."""
        for directory in (self.outside, self.folder):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        kept = self.outside / "secret.txt"
        kept.write_text(self.secret)
        kept.chmod(0o600)
        (self.outside / "code.py").write_text(f"VALUE = {self.secret!r}")
        (self.outside / "code.ts").write_text(f"export default {self.secret!r};")
        (self.outside / "data.json").write_text(json.dumps({"value": self.secret}))
        (self.folder / "link").symlink_to(self.outside)
        (self.folder / "own.txt").write_text("own")
        self._arrivals()
        if self._victim is None or self._on_victim():
            self._end_victim()
            self._victim = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"])

    def _end_victim(self) -> None:
        if self._victim is not None:
            self._victim.kill()
            self._victim.wait()

    def fill(self, code: str) -> str:
        """``code`` with the names of this world in place of ``@NAME@``."""
        assert self._victim is not None
        places: dict[str, Any] = {
            "SECRET": self.outside / "secret.txt",
            "OUTSIDE": self.outside,
            "MARK": self.outside / "mark",
            "FOLDER": self.folder,
            "ENV": ENVIRONMENT,
            "VICTIM": self._victim.pid,
            "GATEWAY": os.getpid(),
            "TCP": self._sockets["TCP"].getsockname()[1],
            "UDP": self._sockets["UDP"].getsockname()[1],
            "INHERITED": self._sockets["TCP"].fileno(),
            "STREAM": self.place / "stream",
            "DATAGRAM": self.place / "datagram",
            "ABSTRACT": f"pml-{self.secret[:8]}",
            "FORBIDDEN": FORBIDDEN,
            # In two parts: a message that quotes the source line is not a win.
            "WON": f'("{WON[:3]}" + "{WON[3:]}")',
        }
        for name, value in places.items():
            code = code.replace(f"@{name}@", str(value))
        return code

    def escapes(self, said: str) -> list[str]:
        """What got out since the last :meth:`reset`, in words; empty when nothing did. ``said``: all that came back."""
        found = [f"{count} arrived at {name}" for name, count in self._arrivals().items() if count]
        if self.secret in said:
            found.append("the secret came back")
        if WON in said or "root:x:0" in said:
            found.append(f"it says so: {said[:200]}")
        return found + self._changes() + self._on_victim()

    def _arrivals(self) -> dict[str, int]:
        counted = {}
        for name, each in self._sockets.items():
            counted[name] = 0
            while True:
                try:
                    if each.type == socket.SOCK_STREAM:
                        each.accept()[0].close()
                    else:
                        each.recv(1)
                except BlockingIOError:
                    break
                except OSError as exc:
                    if exc.errno != errno.ECONNABORTED:
                        raise
                counted[name] += 1
        return counted

    def _changes(self) -> list[str]:
        known = {"secret.txt", "code.py", "code.ts", "data.json"}
        have = {path.name for path in self.outside.iterdir()} if self.outside.exists() else set()
        found = [f"{name} was made outside" for name in have - known] + [f"{name} is gone" for name in known - have]
        kept = self.outside / "secret.txt"
        if kept.exists():
            if kept.read_text() != self.secret:
                found.append("the secret was changed")
            if kept.stat().st_mode & 0o777 != 0o600 or kept.stat().st_nlink != 1:
                found.append("mode or links of the secret were changed")
        links = [path.name for path in self.folder.rglob("*") if path.is_symlink() and path.name != "link"]
        return found + [f"a symbolic link was made: {name}" for name in links]

    def _on_victim(self) -> list[str]:
        assert self._victim is not None
        if self._victim.poll() is not None or _is_dying(self._victim.pid):
            return ["another process was ended"]
        if sys.platform != "linux":
            return []
        import resource

        found = []
        if resource.prlimit(self._victim.pid, resource.RLIMIT_NOFILE)[0] == 7:
            found.append("limits of another process were changed")
        if os.getpriority(os.PRIO_PROCESS, self._victim.pid) == 19:
            found.append("priority of another process was changed")
        if len(os.sched_getaffinity(self._victim.pid)) < len(os.sched_getaffinity(0)):
            found.append("processors of another process were changed")
        return found


def _is_dying(pid: int) -> bool:
    """Whether a signal is under way to it. Linux; it may take a while until one that ends a process has done so."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return False
    pending = [line.split()[1] for line in status.read_text().splitlines() if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(int(mask, 16) for mask in pending)


class WatchedRun(FakeRun):
    """A run with two tools, ``open:echo`` and ``open:slow``; keeps calls of all others."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.trespasses: list[str] = []

    async def _answer(self, task: Task, _run: Run) -> Outcome:
        if not isinstance(task, ToolCall) or task.tool not in ALLOWED:
            self.trespasses.append(task.tool if isinstance(task, ToolCall) else type(task).__name__)
            refused = Failure("access.denied", "This tool is out of reach.")
            return outcome(task.id, status=Status.DENIED, failure=refused)
        if task.tool == "open:slow":
            await asyncio.sleep(0.05)
        value = dict(task.arguments)
        return outcome(task.id, {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value})


def services() -> FakeServices:
    """For an executor that is to be attempted: its catalog has the tools."""
    return FakeServices(catalog=FakeCatalog([entry(tool) for tool in (*ALLOWED, FORBIDDEN)]))


def task_of(attempt: Attempt, world: World) -> CodeRun:
    """The task that makes the attempt on ``world``."""
    return CodeRun(
        id="attempt",
        language=attempt.language,
        source=world.fill(attempt.code),
        folder=str(world.folder) if attempt.folder else None,
        timeout_s=attempt.timeout_s,
        tools=ALLOWED,
    )


def judged(attempt: Attempt, ended: Outcome, trespasses: Sequence[str], world: World) -> list[str]:
    """What got out, since the last :meth:`World.reset`. A call of a tool that is out of reach got out too."""
    failure = ended.failure
    said = [ended.output, *((failure.code, failure.message, dict(failure.details)) if failure else ())]
    found = world.escapes(encode(said).decode()) + [f"called {tool}" for tool in trespasses]
    if attempt.ends and not (failure and any(part in failure.code for part in attempt.ends)):
        found.append(f"it was not stopped, or for another reason: {failure.code if failure else ended.status}")
    return found


async def attempt_in(executor: Executor, attempt: Attempt, world: World) -> tuple[Outcome, Sequence[str], float]:
    """Make the attempt in the sandbox.

    Returns:
        The outcome, what got out, and how long it took [s].
    """
    world.reset()
    run = WatchedRun()
    task = task_of(attempt, world)
    began = time.monotonic()
    ended = await executor.execute(task, run)
    took_s = time.monotonic() - began
    return ended, judged(attempt, ended, run.trespasses, world), took_s


def left_behind(before: frozenset[int]) -> frozenset[int]:
    """Processes started by this one since ``before`` was taken and still running, the victim not counted. Linux."""
    return children() - before


def children() -> frozenset[int]:
    """Processes started by this one, or by those, without the one whose only work is to start others. Linux."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found: set[int] = set()
    left = [os.getpid()]
    while left:
        own = parents.get(left.pop(), [])
        left += own
        found.update(pid for pid in own if not _starts_others(pid))
    return frozenset(found)


def _starts_others(pid: int) -> bool:
    try:
        return b"pml_sandbox.spawner_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
