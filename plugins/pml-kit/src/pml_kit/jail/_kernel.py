"""System calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38

COMMON = {
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
    "close_range": 436,
    "open_tree": 428,
    "move_mount": 429,
    "mount_setattr": 442,
}
"""Numbers that are the same on every machine."""


@cache
def libc() -> ctypes.PyDLL:
    """The C library.

    Loaded so that a call keeps the interpreter's lock: a child between fork and exec must not wait for it.
    """
    library = ctypes.PyDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def machine() -> str:
    """``x86_64`` or ``aarch64``; ``""`` where there is no jail: another system, processor or size of a word."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:  # noqa: PLR2004 - bytes of a 64-bit address
        return ""
    name = os.uname().machine
    return name if name in {"x86_64", "aarch64"} else ""


def failed(what: str) -> OSError:
    """The error of the call just made."""
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
