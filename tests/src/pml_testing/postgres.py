"""A PostgreSQL server of a test's own, in a temporary folder; never a service of the system."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import pwd

HOW = "PostgreSQL's programs are not installed: apt-get install postgresql, or put initdb and pg_ctl on the PATH"
START_S = 60
ACCOUNTS = ("postgres", "nobody")
"""Whose name the server takes where the tests run as root, which it refuses to be; the first that there is."""
QUICK = "-c fsync=off -c full_page_writes=off -c synchronous_commit=off"
"""The folder is thrown away, so a power cut may take it."""
WATCH = 'read -r ended; [ "$ended" = over ] && exit; folder=$1; shift; "$@"; rm -rf -- "$folder"'
"""Waits for a word from who started it, and stops the server when that ends without: killed, say."""


def programs() -> Path | None:
    """The folder with ``initdb`` and ``pg_ctl``: of the newest version installed; None when there is none."""
    versions = [folder for folder in Path("/usr/lib/postgresql").glob("*/bin") if (folder / "initdb").exists()]
    if versions:
        return max(versions, key=lambda folder: float(folder.parent.name))
    found = shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


class Cluster:
    """A running server."""

    def __init__(self, url: str, control: Callable[..., None], data: Path) -> None:
        self.url = url
        """``postgresql://…`` of a database that only this cluster's users have; trusts everybody on this machine."""
        self._control, self._data = control, data
        self._made = 0

    def stop(self) -> None:
        """End it at once, as a machine that is gone does."""
        self._control("-m", "immediate", "stop")

    def start(self) -> None:
        """Start it again, at the same address."""
        self._control("start")

    def promote(self) -> None:
        """Make a standby the server that writes."""
        self._control("promote")

    @property
    def pid(self) -> int:
        """Of its first process, whose children serve connections."""
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def database(self) -> str:
        """The address of a new, empty database."""
        import psycopg

        self._made += 1
        name = f"test_{self._made}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"{self.url.rpartition('/')[0]}/{name}"


@contextmanager
def cluster(*, durable: bool = False, standby_of: Cluster | None = None) -> Iterator[Cluster]:
    """Start a server, stop it in the end, and leave nothing behind; not even where this process is killed.

    Args:
        durable: Whether it waits for the disk, as servers in use do.
        standby_of: Another one, which it follows until it is promoted.

    Raises:
        FileNotFoundError: Its programs are not installed.
        subprocess.CalledProcessError: It does not start; its output says why.
    """
    folder = programs()
    if folder is None:
        raise FileNotFoundError(HOW)
    with tempfile.TemporaryDirectory(prefix="pml-postgres-") as temporary, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        account = _account()
        home, data = Path(temporary), Path(temporary) / "data"
        if account is not None:
            os.chown(home, account.pw_uid, account.pw_gid)
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home}"
        options = options if durable else f"{options} {QUICK}"
        if standby_of is None:
            program, args = "initdb", f"-D {data} -U postgres -A trust -N --locale=C -E UTF8"
        else:
            program, args = "pg_basebackup", f"-D {data} -R -X stream -c fast -d {standby_of.url}"
        pg_ctl = [str(folder / "pg_ctl"), "-D", str(data), "-w", "-t", str(START_S)]
        stop = [*pg_ctl, "-m", "immediate", "stop"]

        def control(*words: str) -> None:
            how = ["-l", str(home / "log"), "-o", options] if "start" in words else []
            _as(account, [*pg_ctl, *how, *words])

        with _watched(account, home, stop):
            _as(account, [str(folder / program), *args.split()])
            control("start")
            try:
                yield Cluster(f"postgresql://postgres@127.0.0.1:{port}/postgres", control, data)
            finally:
                if (data / "postmaster.pid").exists():
                    _as(account, stop)


@contextmanager
def _watched(account: pwd.struct_passwd | None, home: Path, stop: list[str]) -> Iterator[None]:
    """Have the server stopped and its folder removed if this process ends before this does."""
    command = ["/bin/sh", "-c", WATCH, "pml-postgres-watchdog", str(home), *stop]
    # In a session of its own: what interrupts the tests should not end who looks after them.
    watchdog = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
        **_being(account),
    )
    try:
        yield
    finally:
        watchdog.communicate(b"over\n")


def _account() -> pwd.struct_passwd | None:
    """Whom to be; None for who we are."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return None
    import pwd

    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(known[name] for name in ACCOUNTS if name in known)


def _being(account: pwd.struct_passwd | None) -> dict[str, Any]:
    """What :class:`subprocess.Popen` wants to hear of it."""
    return {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": ()}


def _as(account: pwd.struct_passwd | None, command: list[str]) -> None:
    # Not captured through pipes: the server would keep them open.
    with tempfile.TemporaryFile("w+") as output:
        environment = {**os.environ, "LC_ALL": "C"}
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
            cwd="/",
            env=environment,
            **_being(account),
        )
        if ended.returncode:
            output.seek(0)
            raise subprocess.CalledProcessError(ended.returncode, command, output.read())


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """A server for the whole session. Import it into a conftest: ``from pml_testing.postgres import postgres``."""
    if programs() is None:
        pytest.skip(HOW)
    with cluster() as running:
        yield running
