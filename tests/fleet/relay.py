"""What stands between a gateway and its database, and can go silent without hanging up: a cable that is cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Relay:
    """Hands on what comes, as long as it is not silent."""

    def __init__(self, target: int) -> None:
        """To a port of this machine."""
        self._target = target
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def silence(self) -> None:
        """Hand nothing on any more; connections are still taken."""
        self._open.clear()

    def resume(self) -> None:
        """Hand on again, first what has come meanwhile."""
        self._open.set()

    @contextmanager
    def running(self) -> Iterator[Relay]:
        """Listen as long as the block lasts."""
        threading.Thread(target=self._take, daemon=True).start()
        try:
            yield self
        finally:
            self._open.set()
            self._listener.close()

    def _take(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        self._open.wait()
        with near, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._target)) as far:
            back = threading.Thread(target=self._pump, args=(far, near), daemon=True)
            back.start()
            self._pump(near, far)
            back.join()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._open.wait()
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
