"""Takes connections from the listening socket.

The event loop's own servers answer a lack of descriptors with a traceback for each place in the backlog, every second.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any

from .connections import QUIET_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from .connections import Connections

BACKLOG = 2048
AT_ONCE = 64
"""Connections taken or refused before anything else in the loop has its turn."""
ROOM = 8
"""Connections that make way when there is no descriptor left; few, so that those that just came have their turn."""
PAUSE_S = 0.05
"""How long none are taken when there is no descriptor to be had [s]."""


class Acceptor:
    """Takes connections until it is closed."""

    def __init__(
        self, listening: socket.socket, protocol: Callable[[], asyncio.Protocol], connections: Connections, log: Any
    ) -> None:
        """Listen. ``listening`` is bound; it is closed here."""
        listening.setblocking(False)
        listening.listen(BACKLOG)
        self._listening, self._protocol, self._connections, self._log = listening, protocol, connections, log
        self._loop = asyncio.get_running_loop()
        self._beginning: set[asyncio.Task[Any]] = set()
        self._told_at = -QUIET_S
        self._spare: int | None = None
        self._reserve()
        self._task = self._loop.create_task(self._run(), name="accept connections")

    async def close(self) -> None:
        """Take those who wait already, lest what they have sent is lost, and no more."""
        self._loop.remove_reader(self._listening)
        await asyncio.sleep(0)  # cancelled in the turn in which it got a connection, the task would drop it
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        with contextlib.suppress(OSError):
            while self._begin_waiting():
                pass
        self._listening.close()
        await asyncio.gather(*self._beginning, return_exceptions=True)
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    async def _run(self) -> None:
        while True:
            try:
                connected, _ = await self._loop.sock_accept(self._listening)
                self._begin(connected)
                self._begin_waiting()
            except ConnectionError:
                continue  # it left before it was taken
            except OSError as error:
                await self._do_without(error)

    def _begin_waiting(self) -> bool:
        """Take those who wait behind the first one, lest each costs a turn of the loop; whether more may wait."""
        for _ in range(AT_ONCE):
            try:
                connected, _ = self._listening.accept()
            except BlockingIOError:
                return False
            self._begin(connected)
        return True

    def _begin(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        task = self._loop.create_task(self._connect(connected))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _connect(self, connected: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connected)
        except BaseException:
            connected.close()
            raise

    # Out of descriptors.

    def _reserve(self) -> None:
        if self._spare is None:
            with contextlib.suppress(OSError):
                self._spare = os.open(os.devnull, os.O_RDONLY)

    async def _do_without(self, error: OSError) -> None:
        """Make room among those with the least claim; where there are none, refuse."""
        if sum(self._connections.evict_one() for _ in range(ROOM)):
            await asyncio.sleep(0)  # they are closed at the end of this turn
        else:
            self._refuse()
            await asyncio.sleep(PAUSE_S)
        self._tell(error)
        self._reserve()

    def _tell(self, error: OSError) -> None:
        now = self._loop.time()
        if now - self._told_at >= QUIET_S:
            # The log may have to open files for its first line, and then there is another time.
            with contextlib.suppress(OSError):
                self._log.warning("http.out_of_descriptors", problem=str(error), connections=len(self._connections))
                self._told_at = now

    def _refuse(self) -> None:
        """Close connections with the descriptor that is kept for it: nobody shall wait for an answer in the backlog."""
        if self._spare is None:
            return
        os.close(self._spare)
        self._spare = None
        with contextlib.suppress(OSError):
            for _ in range(AT_ONCE):
                self._listening.accept()[0].close()
