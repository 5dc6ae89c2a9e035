"""A server's process: root's files read-only, a folder and a home that vanish with it, no network, no other process."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from entries import FILES, Entry

WORK = "/tmp/playground"
HOME = "/tmp/home"
_NAMESPACES = ("--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc")
_SCRIPT = """
set -e
ip link set lo up 2>/dev/null || true
mount -t tmpfs tmpfs /run
cp -r {files} /run/files
mount -t tmpfs tmpfs /tmp
mkdir {home}
mv /run/files {work}
mount -o remount,bind,ro /
cd {work}
({setup}) >&2 </dev/null
exec {drop} "$@"
"""
"""Sockets of other services are under /run, so that is empty as well."""


class NoJailError(Exception):
    """This machine has not what the jail is made of."""


def checked() -> None:
    """Say what is missing.

    Raises:
        NoJailError: It is not Linux, or ``unshare`` or ``setpriv`` of util-linux is not installed.
    """
    missing = [name for name in ("unshare", "setpriv") if not shutil.which(name)]
    if missing or not hasattr(os, "getuid"):
        raise NoJailError(f"servers of others run in namespaces of Linux only; {', '.join(missing)} is not there")


def command(entry: Entry, program: Path) -> list[str]:
    """The command line that starts a server in a jail of its own; the same for every way to it."""
    variables = {
        "HOME": HOME, "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TZ": "UTC", "TMPDIR": "/tmp",
        "NO_COLOR": "1", **entry.env,
    }  # fmt: skip
    outside = () if os.getuid() == 0 else ("--user", "--map-root-user")
    script = _SCRIPT.format(
        home=HOME, work=WORK, files=shlex.quote(str(FILES)), setup=entry.setup or ":",
        drop="setpriv --bounding-set=-all --inh-caps=-all --no-new-privs",
    )  # fmt: skip
    environment = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]
    start = [*environment, str(program), *entry.args]
    return ["unshare", *outside, *_NAMESPACES, *environment, "sh", "-c", script, "sh", *start]
