"""The seccomp filter: which system calls a process can make.

A list of what is refused, not of what is allowed: the allowed set of V8 and CPython changes with every release. System
calls newer than this list do not exist for the process, and programs cope with that as on an older kernel.

Facts: ``Documentation/userspace-api/seccomp_filter.rst``, ``asm/unistd_64.h`` and ``asm-generic/unistd.h`` of Linux.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from ._numbers import ARCHITECTURE, NEWEST, NUMBERS

_LOAD, _JUMP_IF, _JUMP_IF_AT_LEAST, _JUMP_IF_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16

_CLONE_THREAD, _CLONE_NAMESPACES = 0x00010000, 0x7E020000
_SOCK_STREAM, _SOCK_TYPE = 1, 0xF
_INTERNET = (2, 10)

REFUSED = {
    "namespaces and mounts": (
        "unshare setns mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick move_mount open_tree "
        "mount_setattr swapon swapoff quotactl quotactl_fd acct mknod mknodat open_by_handle_at name_to_handle_at "
        "fanotify_init"
    ),
    "other processes": (
        "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp migrate_pages move_pages "
        "pidfd_open pidfd_getfd pidfd_send_signal tkill setpriority sched_setscheduler sched_setparam sched_setattr "
        "ioprio_set"
    ),
    "the kernel": (
        "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register keyctl add_key request_key "
        "kexec_load kexec_file_load init_module finit_module delete_module reboot syslog lookup_dcookie personality "
        "vhangup settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname iopl ioperm modify_ldt "
        "uselib nfsservctl"
    ),
    "memory that others see, or that no limit counts": "memfd_create memfd_secret execveat",
    "memory, queues and semaphores of other processes, whose ids can be guessed": (
        "shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl "
        "mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr"
    ),
    "watching files": "inotify_init inotify_init1",
    "taking connections": "listen accept accept4",
    "the network": "socket bind connect",
}
"""Refused whatever the arguments."""

PRETENDED = (
    "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat "
    "setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr"
)
"""Done for show: owner, mode, times and attributes of files.

Landlock does not guard these, and they take no more than being allowed to read a file, or not even that. They end well
and change nothing, because copying a file ends with them.
"""

_IOCTLS = (0x5412, 0x541C, 0x40086602, 0x401C5820, 0x8901, 0x8902, 0x5452)
"""Refused: TIOCSTI and TIOCLINUX, which type into a terminal; FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR, which are like
chmod; FIOSETOWN, SIOCSPGRP and FIOASYNC, by which a descriptor signals whatever process it is given."""
_FCNTLS = (8, 10, 15, 1024, 1026)
"""Refused: F_SETOWN, F_SETSIG and F_SETOWN_EX, by which a descriptor signals whatever process it is given; F_SETLEASE,
which holds up others who open a file; F_NOTIFY, which watches a folder."""
_F_SETFL, _O_ASYNC = 4, 0o20000
_PRCTLS = (1,)
"""Refused: PR_SET_PDEATHSIG, which would untie a process from the life of whoever started it."""


@dataclass
class _Program:
    """Instructions, each ``(code, jump if true, jump if false, value)``, and where the process's own id belongs."""

    lines: list[tuple[int, int, int, int]] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    def add(self, code: int, value: int, yes: int = 0, no: int = 0) -> None:
        self.lines.append((code, yes, no, value))

    def load(self, offset: int) -> None:
        self.add(_LOAD, offset)

    def refuse(self, number: int) -> None:
        self.add(_RETURN, _ERRNO | number)

    def allow(self) -> None:
        self.add(_RETURN, _ALLOW)

    def when(self, call: int | None, body: _Program) -> None:
        """Run ``body``, which ends in a verdict, for this system call."""
        if call is None:
            return
        self.add(_JUMP_IF, call, no=len(body.lines))
        self.ids += [len(self.lines) + at for at in body.ids]
        self.lines += body.lines


@dataclass(frozen=True, slots=True)
class Filter:
    """A finished filter."""

    code: bytes
    """Instructions as the kernel takes them, 8 bytes each."""
    length: int
    ids: tuple[int, ...]
    """Byte offsets at which the id of the process has to be put in (32 bits) by itself."""


def _refusing(number: int) -> _Program:
    body = _Program()
    body.refuse(number)
    return body


def _starting_processes(*, processes: bool) -> _Program:
    """clone: threads, and if wanted processes; no new namespaces."""
    body = _Program()
    body.load(_FIRST_ARGUMENT)
    body.add(_JUMP_IF_ANY, _CLONE_NAMESPACES, no=1)
    body.refuse(errno.EPERM)
    if not processes:
        body.add(_JUMP_IF_ANY, _CLONE_THREAD, yes=1)
        body.refuse(errno.EAGAIN)
    body.allow()
    return body


def _only_itself() -> _Program:
    """Signals: the first argument is the process's own id."""
    body = _Program()
    body.load(_FIRST_ARGUMENT)
    body.ids.append(len(body.lines))
    body.add(_JUMP_IF, 0, no=1)
    body.allow()
    body.refuse(errno.EPERM)
    return body


def _only_zero(argument: int) -> _Program:
    """Both halves of the argument are 0."""
    body = _Program()
    for half in (0, 4):
        body.load(_FIRST_ARGUMENT + 8 * argument + half)
        body.add(_JUMP_IF, 0, yes=1)
        body.refuse(errno.EPERM)
    body.allow()
    return body


def _pairs_of_streams() -> _Program:
    """socketpair: of streams. One of datagrams could still send to any named Unix socket."""
    body = _Program()
    body.load(_FIRST_ARGUMENT + 8)
    body.add(0x54, _SOCK_TYPE)  # and
    body.add(_JUMP_IF, _SOCK_STREAM, no=1)
    body.allow()
    body.refuse(errno.EACCES)
    return body


def _others(argument: int, commands: Sequence[int]) -> _Program:
    """The argument is none of these commands. The kernel takes its lower half only, and so does this."""
    body = _Program()
    body.load(_FIRST_ARGUMENT + 8 * argument)
    for command in commands:
        body.add(_JUMP_IF, command, no=1)
        body.refuse(errno.EPERM)
    body.allow()
    return body


def _other_fcntls() -> _Program:
    body = _others(1, _FCNTLS)
    body.lines.pop()
    body.add(_JUMP_IF, _F_SETFL, no=3)
    body.load(_FIRST_ARGUMENT + 16)
    body.add(_JUMP_IF_ANY, _O_ASYNC, no=1)
    body.refuse(errno.EPERM)
    body.allow()
    return body


def _sockets_of_the_internet() -> _Program:
    """socket: of IPv4 and IPv6. Others reach what no network namespace holds: daemons of the machine, its host."""
    body = _Program()
    body.load(_FIRST_ARGUMENT)
    for family in _INTERNET:
        body.add(_JUMP_IF, family, no=1)
        body.allow()
    body.refuse(errno.EACCES)
    return body


@cache
def build(machine: str, *, processes: bool, truncate: bool, sockets: bool = False) -> Filter:
    """The filter for ``machine``.

    Args:
        machine: A key of :data:`NUMBERS`.
        processes: Whether other processes may be started and signalled.
        truncate: Whether files may be cut by their paths, which Landlock before version 3 does not guard.
        sockets: Whether there may be sockets of the Internet's protocols that do not listen.
    """
    numbers = NUMBERS[machine]
    program = _Program()
    program.load(_ARCHITECTURE)
    program.add(_JUMP_IF, ARCHITECTURE[machine], yes=1)
    program.add(_RETURN, _KILL)
    program.load(_NUMBER)
    # Also the second numbering of x86_64, which would be a way round every line below.
    program.add(_JUMP_IF_AT_LEAST, NEWEST + 1, no=1)
    program.refuse(errno.ENOSYS)
    for group, names in REFUSED.items():
        if sockets and group == "the network":
            program.when(numbers["socket"], _sockets_of_the_internet())
            continue
        number = errno.EACCES if group in {"the network", "taking connections"} else errno.EPERM
        for name in names.split():
            program.when(numbers.get(name), _refusing(number))
    for name in PRETENDED.split():
        program.when(numbers.get(name), _refusing(0))
    if not truncate:
        program.when(numbers["truncate"], _refusing(errno.EPERM))
    program.when(numbers["ioctl"], _others(1, _IOCTLS))
    program.when(numbers["fcntl"], _other_fcntls())
    program.when(numbers["prctl"], _others(0, _PRCTLS))
    # Space on a disk would be taken faster than anybody can look; libraries then write zeros.
    program.when(numbers["fallocate"], _refusing(errno.EOPNOTSUPP))
    # Its flags lie in memory where a filter cannot look; libraries then use clone.
    program.when(numbers["clone3"], _refusing(errno.ENOSYS))
    program.when(numbers["clone"], _starting_processes(processes=processes))
    if not processes:
        for name in ("fork", "vfork"):
            program.when(numbers.get(name), _refusing(errno.EAGAIN))
        for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
            program.when(numbers[name], _only_itself())
    program.when(numbers["prlimit64"], _only_zero(0))
    program.when(numbers["sched_setaffinity"], _only_zero(0))
    if not sockets:
        program.when(numbers["sendto"], _only_zero(4))
    program.when(numbers["socketpair"], _pairs_of_streams())
    program.allow()
    code = b"".join(struct.pack("=HBBI", *line) for line in program.lines)
    return Filter(code, len(program.lines), tuple(8 * at + 4 for at in program.ids))
