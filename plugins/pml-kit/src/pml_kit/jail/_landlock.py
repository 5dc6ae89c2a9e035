"""Landlock: which files a process can reach at all, by the kernel's own paths.

Facts: ``include/uapi/linux/landlock.h`` and ``Documentation/userspace-api/landlock.rst`` of Linux.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable
from functools import cache

from ._kernel import COMMON, failed, libc, machine

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << n for n in range(6))
MAKE_DIR, MAKE_REG, REFER, TRUNCATE, IOCTL_DEV = 1 << 7, 1 << 8, 1 << 13, 1 << 14, 1 << 15

READ = READ_FILE | READ_DIR
RUN = READ | EXECUTE
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
"""No symbolic links, sockets, pipes or devices: a link made here would lead others astray who follow it."""
REMOVE = READ | REMOVE_DIR | REMOVE_FILE
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""Rights that a rule for something other than a directory can have."""

_FIRST = (1 << 13) - 1
TRUNCATE_SINCE = 3
TCP_SINCE = 4
SCOPES_SINCE = 6
_NEWER = {2: REFER, TRUNCATE_SINCE: TRUNCATE, 5: IOCTL_DEV}
_TCP = 0b11
_SCOPES = 0b11
_PATH_BENEATH = 1


@cache
def abi() -> int:
    """The version that this kernel has; 0 for none, or where it is switched off or out of reach."""
    if not machine():
        return 0
    version = libc().syscall(COMMON["landlock_create_ruleset"], None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(0, int(version))


def ruleset(grants: Iterable[tuple[str, int]], *, tcp: bool = False) -> int:
    """A descriptor of rules that grant what is listed and nothing else.

    Of abstract Unix sockets and signals to processes outside nothing at all is granted, as far as the kernel's version
    knows of these.

    Args:
        grants: Paths and rights. A path that does not exist is left out.
        tcp: Whether all of TCP is granted, or nothing.

    Raises:
        OSError: The kernel refuses.
    """
    version = abi()
    handled = _FIRST
    for since, right in _NEWER.items():
        handled |= right if version >= since else 0
    networks = _TCP if version >= TCP_SINCE and not tcp else 0
    attributes = struct.pack("=QQQ", handled, networks, _SCOPES if version >= SCOPES_SINCE else 0)
    size = 24 if version >= SCOPES_SINCE else 16 if version >= TCP_SINCE else 8
    found = libc().syscall(
        COMMON["landlock_create_ruleset"], ctypes.c_char_p(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0)
    )
    if found < 0:
        raise failed("landlock_create_ruleset")
    try:
        for path, rights in grants:
            _grant(int(found), path, rights & handled)
    except OSError:
        os.close(found)
        raise
    return int(found)


def _grant(rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as exc:
        if exc.errno in (errno.ENOENT, errno.ENOTDIR):
            return
        raise
    try:
        if not os.path.isdir(path):  # noqa: PTH112 - of a path that may be a symbolic link, as open follows it
            rights &= OF_FILES
        rule = ctypes.c_char_p(struct.pack("=Qi", rights, place))
        add = COMMON["landlock_add_rule"]
        if libc().syscall(add, ctypes.c_int(rules), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0)) < 0:
            raise failed(f"landlock_add_rule {path}")
    finally:
        os.close(place)
