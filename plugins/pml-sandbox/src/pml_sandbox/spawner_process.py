"""The program of the process that starts others: ``python -I -m pml_sandbox.spawner_process DESCRIPTOR``.

It does nothing but start processes in jails, kill them and tell of their ends, so it stays small, and to fork it costs
little. When whoever started it goes, it goes, and everything that it has started with it.
"""

from __future__ import annotations

import errno
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pml_kit.jail import Jail, limit_cpu
from pml_kit.jail._priority import AGAIN_S, group_gives_way

MOST_BYTES = 1 << 18
"""Largest message [bytes]."""
JAILS = 64
"""That are kept ready, those used last. Each keeps a descriptor."""
DESCRIPTORS_PER_JAIL = 8
"""Descriptors that each jail which is kept ready takes of those that this process may have."""
DESCRIPTORS = 3
SCRATCH = "\0scratch"
"""Stands for the path of a process's scratch folder, in its environment and in its jail."""


class SpawnServer:
    """Serves one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._scratches: dict[int, str] = {}
        self._pushing: set[int] = set()
        """Processes whose groups do not have their low priority yet."""
        self._jails: OrderedDict[str, Callable[[], None] | None] = OrderedDict()
        import resource  # not on every system that imports this module

        self._most_jails = min(JAILS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // DESCRIPTORS_PER_JAIL)

    def serve(self) -> None:
        """Serve requests until the other end is closed."""
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ, self._order)
            selector.register(read, selectors.EVENT_READ, lambda: self._ends(read))
            while all(key.data() for key, _ in selector.select(AGAIN_S if self._pushing else None)):
                self._pushing = {pid for pid in self._pushing if not group_gives_way(pid)}
        for pid, child in self._children.items():
            _kill(pid)
            child.wait()
            _remove(self._scratches.pop(pid, None))

    def _order(self) -> bool:
        try:
            raw, descriptors, _, _ = socket.recv_fds(self._connection, MOST_BYTES, DESCRIPTORS)
        except ConnectionResetError:  # closed before it read what it was told
            return False
        if not raw:
            return False
        order = json.loads(raw)
        if "id" not in order:
            self._told(order)
            return True
        try:
            pid = self._start(order, descriptors)
            told = {"id": order["id"], "pid": pid, "scratch": self._scratches.get(pid)}
        except (OSError, ValueError, subprocess.SubprocessError) as exc:
            number = getattr(exc, "errno", None)
            told = {"id": order["id"], "error": str(exc), "kind": type(exc).__name__, "errno": number}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._tell(told)
        return True

    def _told(self, order: dict[str, int]) -> None:
        """Of a process that was started; one that has ended is not there to be told of."""
        if order.get("kill") in self._children:
            _kill(order["kill"])
        elif order.get("limit") in self._children:
            # It is not waited for yet, so the number is still its own. It may be ending just now.
            with suppress(ProcessLookupError):
                limit_cpu(order["limit"], order["cpu_s"])

    def _start(self, order: dict[str, Any], descriptors: list[int]) -> int:
        if len(descriptors) < DESCRIPTORS:
            raise OSError(errno.EMFILE, "too many open files: raise the limit (ulimit -n)")
        stdin, stdout, stderr = descriptors
        scratch = None if order["scratch"] is None else _scratch(order)
        try:
            child = subprocess.Popen(
                order["words"],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=order["folder"],
                env=order["environment"],
                start_new_session=True,
                preexec_fn=self._jail(order["jail"]),  # noqa: PLW1509 - there are no threads here
            )
        except BaseException:
            _remove(scratch)
            raise
        self._children[child.pid] = child
        if scratch is not None:
            self._scratches[child.pid] = scratch
        if not group_gives_way(child.pid):
            self._pushing.add(child.pid)
        return child.pid

    def _jail(self, wanted: dict[str, Any]) -> Callable[[], None] | None:
        key = json.dumps(wanted)
        if key not in self._jails:
            self._jails[key] = Jail.of(wanted).preexec()
        self._jails.move_to_end(key)
        while len(self._jails) > max(self._most_jails, 1):
            self._jails.popitem(last=False)
        return self._jails[key]

    def _ends(self, wakeup: int) -> bool:
        with suppress(BlockingIOError):
            os.read(wakeup, MOST_BYTES)
        while (ended := _ended()) is not None:
            # Before it is waited for: its number is still its own, and so is its group.
            _kill(ended)
            child = self._children.pop(ended, None)
            if child is None:
                os.waitpid(ended, 0)
                continue
            status = child.wait()
            self._pushing.discard(ended)
            _remove(self._scratches.pop(ended, None))
            self._tell({"ended": ended, "status": status})
        return True

    def _tell(self, message: dict[str, Any]) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self._connection.send(json.dumps(message).encode())


def _scratch(order: dict[str, Any]) -> str:
    """A new folder, whose path is put into ``order`` wherever it belongs."""
    scratch = f"{order['scratch']}{os.urandom(8).hex()}"
    os.mkdir(scratch, 0o700)  # noqa: PTH102 - often
    order["environment"] = {name: value.replace(SCRATCH, scratch) for name, value in order["environment"].items()}
    order["jail"]["write"] = [scratch if path == SCRATCH else path for path in order["jail"]["write"]]
    return scratch


def _remove(scratch: str | None) -> None:
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)


def _ended() -> int | None:
    """A child that has ended and was not waited for; None without one."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if found is None else found.si_pid


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def main() -> None:
    """Serve the connection whose descriptor is the only argument.

    Its end is that of the gateway, however that ended. The kernel is not asked to kill this process then: what it has
    started has to be killed by somebody, and code can shake off a signal that the kernel would send it (by an execve
    in a second thread).
    """
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        SpawnServer(connection).serve()


if __name__ == "__main__":
    main()
