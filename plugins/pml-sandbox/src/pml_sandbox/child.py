"""A process that runs code: its streams cut into text and frames, and its end."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from .spawner import Spawned, Spawner

if TYPE_CHECKING:
    from .jail import Jail

SENTINEL = b"\x1e"
"""Begins a frame (ASCII record separator); the mark of the process follows."""
_STDIN, _STDOUT, _STDERR = range(3)
_LINGER_S = 0.2
"""How long streams may stay open after their process has ended: something else that it started holds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How to start a process that speaks the protocol of :mod:`pml_sandbox.bridge`."""

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """All of it: nothing is inherited."""
    folder: str = "/"
    """Where it starts."""
    jail: Jail | None = None
    """Around it; None for none."""
    scratch: str | None = None
    """A folder of its own, which is removed when it has ended."""


class Text:
    """What a process printed on one stream, up to a limit."""

    def __init__(self, most_bytes: int) -> None:
        self._kept, self._most = bytearray(), most_bytes
        self.total_bytes = 0

    def add(self, data: bytes | memoryview) -> None:
        """Keep what fits."""
        self.total_bytes += len(data)
        if (room := self._most - len(self._kept)) > 0:
            self._kept += data[:room]

    @property
    def cut(self) -> bool:
        """Whether something was left out."""
        return self.total_bytes > len(self._kept)

    def read(self) -> str:
        """As text; says at its end what was left out."""
        text = self._kept.decode(errors="replace")
        if not self.cut:
            return text
        return f"{text}\n[cut here: {self.total_bytes - len(self._kept)} of {self.total_bytes} bytes are left out]\n"


class Listener:
    """Who is told what a process does. Does nothing by itself."""

    def frame(self, data: bytes) -> None:
        """A frame came."""

    def flooded(self, what: str, limit_bytes: int) -> None:
        """More came than may come; ``what`` begins a sentence."""

    def ended(self) -> None:
        """The process has ended, and all that it said was heard."""


class Child(asyncio.SubprocessProtocol):
    """One process. Made by :func:`start`."""

    def __init__(self, scratch: str | None, *, frame_bytes: int, output_bytes: int, flood_factor: int) -> None:
        self._scratch = scratch
        self.mark = secrets.token_hex(8).encode()
        """Known to the process's own bootstrap only, so that text which looks like a frame is none."""
        self._begin = SENTINEL + self.mark
        self._frame_bytes, self._flood_bytes = frame_bytes, output_bytes * flood_factor
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self.out, self.error = Text(output_bytes), Text(output_bytes)
        self.listener = Listener()
        self.ready = False
        """Whether its bootstrap has come up."""
        self._transport: asyncio.SubprocessTransport = cast("asyncio.SubprocessTransport", None)
        self._open = {_STDOUT, _STDERR}
        self._writable = asyncio.Event()
        self._writable.set()
        self._reading = True
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the process has ended and its streams are closed."""

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._transport.get_pid()

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self._transport.get_returncode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def send(self, line: bytes) -> None:
        """Send one frame, a line of JSON that ends with a line feed."""
        pipe = self._transport.get_pipe_transport(_STDIN)
        if pipe is not None and not pipe.is_closing():
            cast("asyncio.WriteTransport", pipe).write(line)

    def no_more(self) -> None:
        """Close its standard input."""
        pipe = self._transport.get_pipe_transport(_STDIN)
        if pipe is not None:
            pipe.close()

    async def drained(self) -> None:
        """Wait until it has read most of what was sent."""
        await self._writable.wait()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def listen(self, *, on: bool) -> None:
        """Stop reading what it says, or go on: a process that says too much waits."""
        pipe = self._transport.get_pipe_transport(_STDOUT)
        if pipe is None or on == self._reading or pipe.is_closing():
            return
        self._reading = on
        reader = cast("asyncio.ReadTransport", pipe)
        (reader.resume_reading if on else reader.pause_reading)()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _STDERR:
            self._text(self.error, data)
        else:
            self._lines(data)

    def _text(self, where: Text, data: bytes | memoryview) -> None:
        where.add(data)
        if where.total_bytes > self._flood_bytes:
            self.listener.flooded("What the code printed is", self._flood_bytes)

    def _lines(self, data: bytes) -> None:
        first, *others = data.split(b"\n")
        self._parts.append(first)
        self._parts_bytes += len(first)
        for line in others:
            whole = b"".join(self._parts)
            self._parts, self._parts_bytes = [line], len(line)
            self._line(whole)
        # A line without the beginning of a frame is text, however long it becomes.
        if SENTINEL not in self._parts[-1] and len(self._parts) == 1:
            self._text(self.out, self._parts.pop())
            self._parts_bytes = 0
        elif self._parts_bytes > self._frame_bytes:
            self._parts, self._parts_bytes = [], 0
            self.listener.flooded("What the code returned is", self._frame_bytes)

    def _line(self, line: bytes) -> None:
        at = line.find(self._begin)
        if at < 0:
            self._text(self.out, line + b"\n")
            return
        if at:
            self._text(self.out, line[:at])
        if len(line) > self._frame_bytes + at:
            self.listener.flooded("What the code returned is", self._frame_bytes)
        else:
            self.listener.frame(line[at + len(self._begin) :])

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == _STDIN:
            self._writable.set()
        elif fd in self._open:
            self._open.discard(fd)
            self._check_end()

    def process_exited(self) -> None:
        self.listen(on=True)
        if self._open:
            asyncio.get_running_loop().call_later(_LINGER_S, self._end)
        self._check_end()

    def _check_end(self) -> None:
        if not self._open and self.returncode is not None:
            self._end()

    def _end(self) -> None:
        if self.gone.done():
            return
        if self._parts and self._parts[0]:
            self._text(self.out, b"".join(self._parts))
        self._kill_group()
        self._transport.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        self.gone.set_result(None)
        self.listener.ended()

    def kill(self) -> None:
        """End it and all that it has started, now. Its last words are not heard."""
        self.listener = Listener()
        if self.returncode is None:
            self._kill_group()
        # Not the transport itself, which would look for the end of the process in the watcher's stead.
        for fd in (_STDIN, _STDOUT, _STDERR):
            if (pipe := self._transport.get_pipe_transport(fd)) is not None:
                pipe.close()

    def _kill_group(self) -> None:
        if sys.platform == "win32" or isinstance(self._transport, Spawned):
            # Of what a spawner has started, the group is its to kill: it alone knows whose number it still is.
            if self.returncode is None:
                with suppress(ProcessLookupError):
                    self._transport.kill()
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


async def start(command: Command, spawner: Spawner, **sizes: int) -> Child:
    """Start a process.

    Args:
        command: What to start.
        spawner: Starts what is to be in a jail.
        **sizes: Those of :class:`Child`.

    Raises:
        OSError: It cannot be started.
        subprocess.SubprocessError: A wall of its jail does not go up.
    """
    make = partial(Child, command.scratch, **sizes)
    try:
        if command.jail is not None and command.jail.stands():
            child = await spawner.start(command.words, command.environment, command.folder, command.jail, make)
        else:
            child = await _started(command, make)
    except BaseException:
        if command.scratch is not None:
            shutil.rmtree(command.scratch, ignore_errors=True)
        raise
    child.send(b'{"t":"hello","mark":"%s"}\n' % child.mark)
    return child


async def _started(command: Command, make: Callable[[], Child]) -> Child:
    """Where there are no walls nothing has to be done between fork and exec, so that nobody has to fork for long."""
    how: dict[str, Any] = {"creationflags": getattr(subprocess, "CREATE_NO_WINDOW", 0)}
    if sys.platform != "win32":
        how = {"start_new_session": True}
    _, child = await asyncio.get_running_loop().subprocess_exec(
        make,
        *command.words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=command.folder,
        env=dict(command.environment),
        close_fds=True,
        **how,
    )
    return child
