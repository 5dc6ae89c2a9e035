"""What a jailed process may have, and the last steps of a child before it becomes that process."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from . import _landlock, _priority, _seccomp, _view
from ._kernel import COMMON, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, PR_SET_SECCOMP, failed, libc, machine

DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/nix/store", "/gnu/store")
_CLOSE_ON_EXEC = 4
_FILTER_MODE = 2
_CAPABILITY_VERSION = 0x20080522
_LAST_DESCRIPTOR = 0xFFFFFFFF
_TRIES = 10


@cache
def system_files() -> tuple[str, ...]:
    """Where the dynamic linker finds libraries on this machine; to be put into :attr:`Jail.run`."""
    return tuple(path for path in _LIBRARIES if Path(path).exists())


@dataclass(frozen=True, slots=True, kw_only=True)
class Jail:
    """What a process may have; what is not listed is refused.

    There is no network unless there are sockets. The environment is what the caller gives.
    """

    read: tuple[str, ...] = ()
    """Files and directories, with all that is in them. Paths that do not exist are left out."""
    run: tuple[str, ...] = ()
    """The same, and programs in them can be started: the program itself, which is the first file, and its libraries
    (:func:`system_files`)."""
    write: tuple[str, ...] = ()
    """The same as :attr:`read`, and files can be made, changed and removed; no symbolic links, sockets or devices."""
    remove: tuple[str, ...] = ()
    """The same as :attr:`read`, and files in them can be removed; nothing can be made or changed."""
    memory_bytes: int | None = None
    """Private memory that it can write: heap, stacks, anonymous mappings (RLIMIT_DATA) [bytes]."""
    address_bytes: int | None = None
    """Addresses of any kind, shared memory included (RLIMIT_AS) [bytes]. Not for programs that reserve much more than
    they use, as V8 does."""
    cpu_s: int | None = None
    """Time on a processor; SIGXCPU then, SIGKILL a second later [s]."""
    file_bytes: int | None = None
    """Size of any one file [bytes]."""
    open_files: int = 256
    """Descriptors open at once."""
    processes: bool = False
    """Whether it may start other processes. It can always start threads. False also keeps it from signalling any
    process but itself; with True that takes Landlock of version 6."""
    sockets: bool = False
    """Whether it may have sockets of the Internet's protocols, and connect them. It cannot listen; what it reaches is
    for a network of its own to hold."""
    tied: bool = True
    """Killed when the thread that started it ends, which for one started by an event loop is when the gateway ends,
    however it ends."""

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> Jail:
        """The one with these members, as JSON has them: lists in place of tuples."""
        made: dict[str, Any]
        made = {name: tuple(value) if isinstance(value, list) else value for name, value in members.items()}
        return cls(**made)

    def preexec(self, *, keep: Sequence[int] = ()) -> Callable[[], None] | None:
        """What to give ``asyncio.create_subprocess_exec`` as ``preexec_fn``.

        Puts up every wall that this machine has and fails, so that nothing is started, if one of them does not go up.
        Can be used for many processes: everything that can be prepared is prepared here.

        Args:
            keep: Descriptors from 3 on that the process is to inherit.

        Returns:
            None where there are no walls: not Linux, or a processor that is neither x86_64 nor aarch64.

        Raises:
            OSError: The kernel has Landlock and refuses a rule.
            ValueError: A path in ``/proc``: it would be another process's by the time it is used.
        """
        return Enter(self, keep, os.getpid(), self._view()) if self.stands() else None

    def enter(self) -> None:
        """Put this very process into the jail, which has to become another program next.

        Does nothing where there are no walls. May wait for about a second.

        Raises:
            OSError: A wall does not go up.
            ValueError: As for :meth:`preexec`.
        """
        if self.stands():
            with suppress(OSError):  # it leads one already
                os.setsid()
            for _ in range(_TRIES):
                if _priority.group_gives_way("self"):
                    break
                time.sleep(_priority.AGAIN_S)
            Enter(self, (), os.getppid(), self._view())()

    def _view(self) -> _view.View | None:
        if _view.refused():
            return None
        program = next((path for path in self.run if Path(path).is_file()), "")
        # What Landlock refuses to change, it refuses with an error that tells of rights.
        seen = (*self.read, *self.run, *self.write, *self.remove, *DEVICES)
        return _view.View((), program, writable=seen)

    def stands(self) -> bool:
        """Whether this machine has walls for it.

        Raises:
            ValueError: As for :meth:`preexec`.
        """
        if inside := [
            path for path in (*self.read, *self.run, *self.write, *self.remove) if Path(path).is_relative_to("/proc")
        ]:
            raise ValueError(f"a jail cannot grant {inside[0]}: /proc/self would mean the process that asked")
        return bool(machine())

    def keeps_files(self) -> bool:
        """Whether this machine refuses what is not granted of files."""
        return self.stands() and _landlock.abi() > 0

    def command(self) -> tuple[str, ...]:
        """Words to put before a command so that it runs in the jail, where the caller does not fork by itself.

        The command gets no environment, and its program is to be given as an absolute path.
        """
        return (sys.executable, "-I", "-m", "pml_kit.jail", json.dumps(asdict(self)))


class Enter:
    """Callable in the child. Only makes system calls: its arguments were all prepared in the parent."""

    def __init__(
        self, jail: Jail, keep: Sequence[int], parent: int, view: _view.View | None = None, *, apart: bool = True
    ) -> None:
        """Prepare it.

        Args:
            jail: What is to stand around the child.
            keep: Descriptors from 3 on that it is to inherit.
            parent: Id of the process that the child is tied to, as it sees it.
            view: Moves the child, if it is not where it is to be.
            apart: Whether it gets a session of its own, files that others cannot read, and gives way to others.
        """
        self._libc = libc()
        self._tied, self._parent, self._view, self._apart = jail.tied, parent, view, apart
        self._rules = self._granted(jail) if _landlock.abi() else -1
        if self._rules >= 0:
            weakref.finalize(self, os.close, self._rules)
        self._gaps = [(ctypes.c_uint(a), ctypes.c_uint(b)) for a, b in _gaps(keep)]
        made = _seccomp.build(
            machine(),
            processes=jail.processes,
            truncate=_landlock.abi() >= _landlock.TRUNCATE_SINCE,
            sockets=jail.sockets,
        )
        self._code = ctypes.create_string_buffer(made.code, len(made.code))
        self._ids = [ctypes.c_uint32.from_buffer(self._code, at) for at in made.ids]
        self._filter = _FilterProgram(made.length, ctypes.addressof(self._code))
        zero = ctypes.c_ulong(0)
        self._kill = (ctypes.c_ulong(signal.SIGKILL), zero, zero, zero)
        self._yes = (ctypes.c_ulong(1), zero, zero, zero)
        self._install = (ctypes.c_ulong(_FILTER_MODE), ctypes.byref(self._filter), zero, zero)
        self._header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
        self._no_capabilities = (ctypes.c_uint32 * 6)()
        self._limits = [(ctypes.c_int(number), (ctypes.c_uint64 * 2)(*pair)) for number, pair in _limits(jail)]

    @staticmethod
    def _granted(jail: Jail) -> int:
        return _landlock.ruleset(
            [
                *((path, _landlock.READ) for path in jail.read),
                *((path, _landlock.RUN) for path in jail.run),
                *((path, _landlock.WRITE) for path in jail.write),
                *((path, _landlock.REMOVE) for path in jail.remove),
                *((path, _landlock.READ_FILE | _landlock.WRITE_FILE) for path in DEVICES),
            ],
            tcp=jail.sockets,
        )

    def __call__(self) -> None:
        self._part()
        self._wall_in()
        # Last: the parent may well use more memory than the child is allowed.
        for number, limit in self._limits:
            if self._libc.setrlimit(number, limit) < 0:
                raise failed("setrlimit")

    def _part(self) -> None:
        """Leave what is shared with the parent: its session, its files, its descriptors, its life if so wanted."""
        if self._apart:
            self._libc.setsid()
        if self._view is not None:
            self._view()
        if self._tied:
            self._libc.prctl(PR_SET_PDEATHSIG, *self._kill)
            if os.getppid() != self._parent:
                os._exit(1)
        if self._apart:
            os.umask(0o077)
            _priority.give_way()
        for first, last in self._gaps:
            # Fails on a kernel that does not know it; Python's own descriptors are not inherited in any case.
            self._libc.syscall(COMMON["close_range"], first, last, _CLOSE_ON_EXEC)

    def _wall_in(self) -> None:
        if self._libc.prctl(PR_SET_NO_NEW_PRIVS, *self._yes) < 0:
            raise failed("no_new_privs")
        if self._rules >= 0 and self._libc.syscall(COMMON["landlock_restrict_self"], self._rules, 0) < 0:
            raise failed("landlock_restrict_self")
        if self._libc.capset(self._header, self._no_capabilities) < 0:
            raise failed("capset")
        own = os.getpid()
        for place in self._ids:
            place.value = own
        if self._libc.prctl(PR_SET_SECCOMP, *self._install) < 0:
            raise failed("seccomp")


class _FilterProgram(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def _gaps(keep: Sequence[int]) -> list[tuple[int, int]]:
    """What is to be closed, from 3 on, first and last."""
    gaps, start = [], 3
    for kept in sorted({number for number in keep if number > 2}):  # noqa: PLR2004 - the standard streams
        if kept > start:
            gaps.append((start, kept - 1))
        start = kept + 1
    return [*gaps, (start, _LAST_DESCRIPTOR)]


def _limits(jail: Jail) -> list[tuple[int, tuple[int, int]]]:
    """Numbers of resources with their soft and hard limits, none higher than what holds already."""
    if sys.platform != "linux":
        return []
    import resource

    wanted = [(resource.RLIMIT_CORE, 0, 0), (resource.RLIMIT_NOFILE, jail.open_files, jail.open_files)]
    if jail.cpu_s is not None:
        wanted.append((resource.RLIMIT_CPU, jail.cpu_s, jail.cpu_s + 1))
    sizes = (
        (resource.RLIMIT_FSIZE, jail.file_bytes),
        (resource.RLIMIT_AS, jail.address_bytes),
        (resource.RLIMIT_DATA, jail.memory_bytes),
    )
    wanted += [(number, size, size) for number, size in sizes if size is not None]
    return [(number, _no_higher(resource.getrlimit(number)[1], soft, hard)) for number, soft, hard in wanted]


def limit_cpu(process: int, cpu_s: int) -> None:
    """Limit the time on processors of a process that runs already, all its threads together. Linux.

    A limit is never raised. Nothing that the process does takes it away: not another program in its place either.

    Args:
        process: Its id; 0 for this one.
        cpu_s: In all, since it began; SIGXCPU then, SIGKILL a second later [s].

    Raises:
        ProcessLookupError: There is none.
    """
    import resource

    held = resource.prlimit(process, resource.RLIMIT_CPU)[1]
    resource.prlimit(process, resource.RLIMIT_CPU, _no_higher(held, cpu_s, cpu_s + 1))


def _no_higher(held: int, soft: int, hard: int) -> tuple[int, int]:
    """``held`` is -1 for no limit."""
    return (soft, hard) if held < 0 else (min(soft, held), min(hard, held))
