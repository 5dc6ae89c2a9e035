"""Which walls this machine can build."""

from __future__ import annotations

import ctypes
import errno
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import _landlock, _view
from ._kernel import PR_SET_SECCOMP, libc, machine

if TYPE_CHECKING:
    from pml_hookspecs import Check

_FILTER_MODE = 2


@dataclass(frozen=True, slots=True)
class Wall:
    """One wall of the jail."""

    name: str
    """``files``, ``network``, ``processes``, ``kernel``, ``privileges``, ``limits`` or ``names``."""
    stands: bool
    detail: str
    """What it keeps out, or why it does not stand and what to do."""

    def check(self, remedy: str, of: str = "jail") -> Check:
        """What the doctor says of it; ``remedy`` where it does not stand."""
        from pml_hookspecs import Check

        return Check(f"{of}: {self.name}", self.stands, self.detail, "" if self.stands else remedy)


_NAMES = (
    "names, sizes, times and owners of other files, and where links lead, can be asked for (stat, readlink), though no "
    "such file can be opened"
)


def walls() -> Sequence[Wall]:
    """Every wall there is, standing or not. Starts a process, once, to try."""
    return [*_needed(), _names()]


def _names() -> Wall:
    why = _view.refused()
    if not why:
        return Wall("names", True, "a file system of its own: what is not granted has no name in it (stat, readlink)")
    remedy = (
        ". Allow user namespaces: user.max_user_namespaces above 0, kernel.unprivileged_userns_clone = 1, "
        "kernel.apparmor_restrict_unprivileged_userns = 0, and in a container a seccomp profile with unshare and mount"
        if machine()
        else ""
    )
    return Wall(
        "names", False, f"{_NAMES}: no version of Landlock guards these, and no namespaces here ({why}){remedy}"
    )


def _needed() -> Sequence[Wall]:
    if not machine():
        why = f"no jail on {sys.platform} of this kind: it takes Linux on x86_64 or aarch64"
        return [Wall(name, False, why) for name in ("files", "network", "processes", "kernel", "privileges", "limits")]
    version, filters = _landlock.abi(), _has_filters()
    without = "seccomp filters are off here: run on a kernel with CONFIG_SECCOMP_FILTER"
    files = (
        f"Landlock, version {version}: only what is granted can be opened"
        if version
        else "no Landlock: start Linux 5.13 or newer with lsm=landlock,..., and let containers use its system calls"
    )
    signals = (
        ", by system call or through a descriptor"
        if version >= _landlock.SCOPES_SINCE
        else f". Landlock {version or 'is not there and'} does not keep signals in a second time; "
        "version 6 does (Linux 6.12)"
    )
    return [
        Wall("files", version > 0, files),
        Wall("network", filters, "no new sockets of any kind" if filters else without),
        Wall("processes", filters, f"no new processes, no signals to others{signals}" if filters else without),
        Wall("kernel", filters, "no mounts, tracing, keys, io_uring, bpf and such" if filters else without),
        Wall("privileges", True, "no capabilities, and none to be had"),
        Wall("limits", True, "memory, processor time, file size and descriptors are limited"),
    ]


def missing() -> Sequence[Wall]:
    """Those that do not stand, of those that code must not do without which has no other walls around it.

    That is all but ``names``. Takes microseconds; starts nothing.
    """
    return [wall for wall in _needed() if not wall.stands]


def _has_filters() -> bool:
    """The kernel looks for the filter, so it knows of them: EFAULT for the null pointer, EINVAL if it knew none."""
    if libc().prctl(PR_SET_SECCOMP, _FILTER_MODE, None, 0, 0) == 0:
        return False
    return ctypes.get_errno() == errno.EFAULT
