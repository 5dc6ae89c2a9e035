"""A file system of its own for a process: what it is granted at its place, and no name of anything else.

Landlock guards what is opened, and none of its versions what is asked of a path: whether a file is there, its size, its
times, whose it is, and where a link leads. Where users may make namespaces, a process gets one without other paths.

Facts: ``user_namespaces(7)``, ``mount_namespaces(7)``, ``pivot_root(2)``, ``open_tree(2)`` of Linux.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from ._kernel import COMMON, failed, libc, machine
from ._numbers import NUMBERS

_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000
_PRIVATE, _RECURSIVE, _REMOUNT, _BIND, _READ_ONLY = 1 << 18, 1 << 14, 1 << 5, 1 << 12, 1
_NOSUID, _NODEV, _NOEXEC = 2, 4, 8
_DETACH = 2
_AT_HERE, _AT_RECURSIVE, _CLONE, _CLOSE_ON_EXEC = -100, 0x8000, 1, 0o2000000
_FROM_DESCRIPTOR = 4
_AT_EMPTY, _FIXED = 0x1000, 1
_BASES = ("/tmp", "/var", "/usr")  # noqa: S108 - nothing is written there: it is covered, in a namespace of its own


class View:
    """Callable between fork and exec, in a process without other threads. Prepared in the parent."""

    def __init__(
        self,
        paths: Iterable[str],
        program: str = "",
        *,
        writable: Iterable[str] = (),
        folders: Iterable[str] = (),
        temporary: Iterable[str] = (),
        temporary_bytes: int = 0,
    ) -> None:
        """Take what is to be seen, and what runs.

        Args:
            paths: Files, and directories with all that is in them; what does not exist is left out.
            program: Where ``/proc/self/exe`` leads, which is all that there is of ``/proc``; ``""`` for nowhere.
            writable: What is to be seen and can be written to; the rest cannot be, whoever tries.
            folders: Folders that are there and empty, but for what is to be seen below them.
            temporary: The same, and they can be written to.
            temporary_bytes: Size of what is in one of these [bytes].
        """
        self._program = program
        self._temporary = [os.fsencode(folder).strip(b"/") for folder in temporary]
        self._sizes = b"size=%d,mode=700" % temporary_bytes
        self._base = next(base for base in _BASES if Path(base).is_dir()).encode()
        self._folders: list[bytes] = []
        self._files: list[bytes] = []
        self._trees: list[tuple[bytes, bytes, bool]] = []
        for target, changes in _targets(paths, writable):
            inside = os.fsencode(target).lstrip(b"/")
            self._trees.append((os.fsencode(os.path.realpath(target)), inside, changes))
            is_folder = Path(target).is_dir()
            self._folders += _way(inside if is_folder else os.path.dirname(inside))  # noqa: PTH120 - of bytes
            self._files += [] if is_folder else [inside]
        for folder in folders:
            self._folders += _way(os.fsencode(folder).strip(b"/"))
        self._folders = list(dict.fromkeys(self._folders))
        self._pivot = NUMBERS[machine()]["pivot_root"]

    def __call__(self) -> None:
        """Move this process there, into the same directory if that is to be seen, else the topmost.

        It has all capabilities in its namespace then, until it gives them up.

        Raises:
            OSError: The kernel refuses; the process must end.
        """
        self.part()
        self.move()

    def move(self) -> None:
        """The second half of it, in a process that has parted or was started by one that has.

        Raises:
            OSError: The kernel refuses; the process must end.
        """
        here = _here()
        call = libc()
        trees = [
            (inside, tree)
            for path, inside, changes in self._trees
            if (tree := _tree(path, fixed=not changes)) is not None
        ]
        size = ctypes.c_char_p(b"size=64k,mode=755")
        _done(call.mount(b"tmpfs", self._base, b"tmpfs", ctypes.c_ulong(_NOSUID | _NODEV), size), "mount tmpfs")
        os.chdir(self._base)
        for folder in self._temporary:
            os.makedirs(folder, 0o755)  # noqa: PTH103 - of bytes
            flags = ctypes.c_ulong(_NOSUID | _NODEV | _NOEXEC)
            _done(call.mount(b"tmpfs", folder, b"tmpfs", flags, ctypes.c_char_p(self._sizes)), "mount temporary")
        for folder in self._folders:
            with suppress(FileExistsError):
                os.mkdir(folder, 0o755)  # noqa: PTH102 - of bytes
        for file in self._files:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        if self._program:
            os.makedirs("proc/self", 0o755)  # noqa: PTH103 - between fork and exec
            os.symlink(self._program, "proc/self/exe")  # noqa: PTH211 - the same
        for inside, tree in trees:
            moved = call.syscall(COMMON["move_mount"], tree, b"", _AT_HERE, inside, _FROM_DESCRIPTOR)
            _done(moved, "move_mount")
            os.close(tree)
        bound = ctypes.c_ulong(_REMOUNT | _BIND | _READ_ONLY | _NOSUID | _NODEV)
        _done(call.mount(None, b"/proc/self/cwd", None, bound, None), "mount read-only")
        # The old root covers the new one then, and goes.
        _done(call.syscall(self._pivot, b".", b"."), "pivot_root")
        _done(call.umount2(b".", _DETACH), "umount")
        try:
            os.chdir(here)
        except OSError:
            os.chdir("/")

    @staticmethod
    def part(more: int = 0) -> None:
        """Namespaces of users, in which it is who it was, and of mounts, which others do not hear of.

        Args:
            more: Flags of further ones, as ``unshare`` takes them.
        """
        user, group = os.getuid(), os.getgid()
        _done(libc().unshare(_NEW_USERS | _NEW_MOUNTS | more), "unshare")
        for name, said in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            file = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
            os.write(file, said.encode())
            os.close(file)
        _done(libc().mount(None, b"/", None, ctypes.c_ulong(_PRIVATE | _RECURSIVE), None), "mount private")


def _way(folder: bytes) -> list[bytes]:
    """A folder and all above it, from the top."""
    parts = folder.split(b"/") if folder else []
    return [b"/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _here() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - between fork and exec
    except OSError:
        return "/"


def _tree(path: bytes, *, fixed: bool) -> int | None:
    """What is mounted at and below ``path``, to be put elsewhere; None when it is gone.

    Args:
        path: A file or a folder.
        fixed: Whether nothing of it can be changed there.
    """
    flags = ctypes.c_uint(_CLONE | _CLOSE_ON_EXEC | _AT_RECURSIVE)
    tree = libc().syscall(COMMON["open_tree"], _AT_HERE, path, flags)
    if tree < 0 and ctypes.get_errno() in (errno.ENOENT, errno.ENOTDIR):
        return None
    _done(tree, "open_tree")
    if fixed:
        attributes = ctypes.c_char_p(struct.pack("=QQQQ", _FIXED, 0, 0, 0))
        flags, size = ctypes.c_uint(_AT_EMPTY | _AT_RECURSIVE), ctypes.c_size_t(32)
        _done(libc().syscall(COMMON["mount_setattr"], tree, b"", flags, attributes, size), "mount_setattr")
    return int(tree)


def _done(result: int, what: str) -> None:
    if result < 0:
        raise failed(what)


def _targets(paths: Iterable[str], writable: Iterable[str]) -> list[tuple[str, bool]]:
    """Where things are to be seen, and whether they change: under the names they are granted by and their own.

    None is below another one, but for what changes below what does not.
    """
    named = {name: False for path in paths for name in _names(path)}
    named.update((name, True) for path in writable for name in _names(path))
    kept: dict[str, bool] = {}
    for path in sorted(named, key=lambda path: path.count("/")):
        above = [changes for other, changes in kept.items() if path.startswith(f"{other.rstrip('/')}/")]
        if not (above and (not named[path] or any(above))):
            kept[path] = named[path]
    return list(kept.items())


def _names(path: str) -> set[str]:
    return {os.path.abspath(path), os.path.realpath(path)} if Path(path).exists() else set()  # noqa: PTH100 - as text


@cache
def refused() -> str:
    """Why this system lets no process have a view of its own; ``""`` when it does. Tries it once."""
    if not machine():
        return "not Linux"
    import subprocess  # takes longer to import than all else here, and what is in a jail needs none

    view = View(["/dev/null"], writable=["/dev/zero"])

    def attempt() -> None:
        number = 0
        try:
            view()
        except OSError as exc:
            number = exc.errno or errno.EPERM
        os._exit(number)

    try:
        tried = subprocess.run([sys.executable], preexec_fn=attempt, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError) as exc:
        return str(exc)
    if tried.returncode == errno.ENOSPC:
        return "no more namespaces may be made, as user.max_user_namespaces says"
    return os.strerror(tried.returncode) if tried.returncode else ""
