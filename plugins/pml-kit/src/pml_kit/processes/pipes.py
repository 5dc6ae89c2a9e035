"""File descriptors on the event loop: chunks in, chunks out, nothing ever blocks.

asyncio's pipe transports copy what they cannot write at once, refuse regular files and take data on a two-way socket
for a hang-up. These do not, and leave the descriptor to whoever opened it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import stat
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

AT_FIRST = 64 * 1024
"""Size of one read, and of a pipe unless told otherwise (Linux) [bytes]."""
AT_MOST = 1 << 20
"""Size of one read, and of the pipe, once a large message was seen [bytes]."""
JOINED = 64 * 1024
"""Up to this much is joined and written at once; more is flushed without waiting for the loop's turn [bytes]."""
PIECES = 256


def grow_pipe(fd: int) -> None:
    """Make a pipe hold :data:`AT_MOST`, where the system can and will.

    Not for every pipe from the start: Linux allows a user 64 MiB of pipe buffers, and shrinks all pipes beyond that.
    """
    import fcntl  # not on every system that imports this module

    set_size = getattr(fcntl, "F_SETPIPE_SZ", None)
    if set_size is not None:
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, set_size, AT_MOST)


def can_wait(fd: int) -> bool:
    """Whether it is a pipe or a socket: never blocks once it is set so, and can be waited for."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def abandoned(fd: int) -> bool:
    """Whether nobody is left to read what is written to ``fd``."""
    poll = select.poll()
    poll.register(fd, 0)
    return bool(poll.poll(0))


class Reader:
    """Calls ``on_data`` with each chunk and ``on_end`` once, with what went wrong if anything did."""

    def __init__(self, fd: int, on_data: Callable[[bytes], None], on_end: Callable[[OSError | None], None]) -> None:
        """Start reading ``fd``, which must not block."""
        self._fd, self._on_data, self._on_end = fd, on_data, on_end
        self._loop = asyncio.get_running_loop()
        self._size = AT_FIRST
        self._open, self._paused = True, True
        self._next: asyncio.Handle | None = None
        """The next read of a descriptor that cannot be watched."""
        self.resume()

    def resume(self) -> None:
        """Go on after :meth:`pause`."""
        if not (self._open and self._paused):
            return
        self._paused = False
        try:
            self._loop.add_reader(self._fd, self._read)
        except OSError:
            # Regular files and /dev/null are always ready, and epoll does not take them.
            self._next = self._loop.call_soon(self._read_and_go_on)

    def pause(self) -> None:
        """Leave further data where it is."""
        if self._open and not self._paused:
            self._paused = True
            if self._next is None:
                self._loop.remove_reader(self._fd)
            else:
                self._next.cancel()

    def close(self) -> None:
        """Stop; neither callback comes any more."""
        self.pause()
        self._open = False

    def _read_and_go_on(self) -> None:
        self._read()
        if self._open and not self._paused:
            self._next = self._loop.call_soon(self._read_and_go_on)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, self._size)
        except BlockingIOError:
            return
        except OSError as error:
            self._finish(error)
            return
        if not data:
            self._finish(None)
            return
        if len(data) < AT_FIRST:
            # Room for more is mapped and unmapped with each read, which takes twenty times as long as the read.
            self._size = AT_FIRST
        elif self._size == AT_FIRST:
            self._size = AT_MOST
            grow_pipe(self._fd)
        self._on_data(data)

    def _finish(self, error: OSError | None) -> None:
        self.close()
        self._on_end(error)


class Writer:
    """Writes in order, what one turn of the loop produces at once. What the peer does not take is kept."""

    def __init__(
        self, fd: int, on_broken: Callable[[OSError], None], on_room: Callable[[], None] | None = None
    ) -> None:
        """Write to ``fd``, which must not block if it is a pipe or a socket.

        Args:
            fd: The descriptor; stays open.
            on_broken: Called once when nothing more can be written.
            on_room: Called when everything kept has been written.
        """
        self._fd, self._on_broken, self._on_room = fd, on_broken, on_room
        self._loop = asyncio.get_running_loop()
        self._chunks: deque[bytes | memoryview] = deque()
        self.size = 0
        """Not yet written [bytes]."""
        self._scheduled, self._full, self._watched, self._open = False, False, False, True

    def write(self, chunks: tuple[bytes, ...], *, now: bool = False) -> None:
        """Write ``chunks`` soon; ``now`` when nothing is likely to follow in this turn of the loop."""
        if not self._open:
            return
        self._chunks += chunks
        for chunk in chunks:
            self.size += len(chunk)
        if self._full:
            return
        if now or self.size > JOINED:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def flush(self) -> None:
        """Write as much as goes without waiting."""
        while self._open and self.size and not self._full:
            try:
                self._push()
            except BlockingIOError:
                self._wait()
            except OSError as error:
                self.close()
                self._on_broken(error)

    def close(self) -> None:
        """Stop; what is kept is dropped."""
        self._open = False
        self._chunks.clear()
        self.size = 0
        self._unwatch()

    def _turn(self) -> None:
        self._scheduled = False
        self.flush()

    def _push(self) -> None:
        chunks = self._chunks
        if len(chunks) > 1 and self.size <= JOINED:
            joined = b"".join(chunks)
            chunks.clear()
            chunks.append(joined)
        if len(chunks) == 1:
            written = os.write(self._fd, chunks[0])
        else:
            written = os.writev(self._fd, list(islice(chunks, PIECES)))
        self.size -= written
        while written:
            length = len(chunks[0])
            if length > written:
                chunks[0] = memoryview(chunks[0])[written:]
                break
            del chunks[0]
            written -= length

    def _wait(self) -> None:
        self._full = True
        if not self._watched:
            self._watched = True
            grow_pipe(self._fd)
            self._loop.add_writer(self._fd, self._room)

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_writer(self._fd)

    def _room(self) -> None:
        self._full = False
        self.flush()
        if not self._full:
            self._unwatch()
            if self._open and self._on_room is not None:
                self._on_room()
