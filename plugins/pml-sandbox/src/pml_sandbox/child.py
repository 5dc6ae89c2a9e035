"""A process that runs code: its streams cut into text and frames, and its end."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pml_kit.jail._priority import NICE

from .spawner import SpawnedProcess, Spawner
from .spawner_process import SCRATCH

if TYPE_CHECKING:
    from pml_kit.jail import Jail

SENTINEL = b"\x1e"
"""Begins a frame (ASCII record separator); the mark of the process follows."""
_STDIN, _STDOUT, _STDERR = range(3)
FLOOD_FACTOR = 8
"""A process that prints so many times as much as is kept of it floods whoever listens."""
_LINGER_S = 0.2
"""How long streams may stay open after their process has ended: something else that it started holds them."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """How to start a process that speaks the protocol of :mod:`pml_sandbox.execution`.

    Best kept: what a spawner has to be told is made once.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """All of it: nothing is inherited."""
    folder: str = "/"
    """Where it starts."""
    jail: Jail | None = None
    """Around it; None for none."""
    scratch: str | None = None
    """How the name begins of a folder of its own, which is made when it starts and removed when it has ended; None for
    none. In the environment, and among what the jail lets it write, :data:`.spawner_process.SCRATCH` stands for it.
    """

    @cached_property
    def walled(self) -> bool:
        """Whether this machine has walls to put around it.

        Raises:
            ValueError: Its jail grants something in ``/proc``.
        """
        return self.jail is not None and self.jail.stands()

    @cached_property
    def order(self) -> bytes:
        """What a spawner is told, but for the number: JSON."""
        assert self.jail is not None  # noqa: S101 - nobody asks without one
        order = {"words": self.words, "environment": dict(self.environment), "folder": self.folder}
        scratch = self.scratch and str(Path(tempfile.gettempdir(), self.scratch))
        return json.dumps({**order, "jail": asdict(self.jail), "scratch": scratch}).encode()


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
        """The text, which says at its end how much was left out."""
        text = self._kept.decode(errors="replace")
        if not self.cut:
            return text
        return f"{text}\n[cut here: {self.total_bytes - len(self._kept)} of {self.total_bytes} bytes are left out]\n"


class Listener:
    """Callbacks for what a process does. Each does nothing unless it is overridden."""

    def frame(self, data: bytes) -> None:
        """A frame came."""

    def flooded(self, what: str, limit_bytes: int) -> None:
        """More came than may come; ``what`` begins a sentence."""

    def ended(self) -> None:
        """The process has ended, and all that it said was heard."""


class Child(asyncio.SubprocessProtocol):
    """One process. Made by :func:`start`."""

    def __init__(
        self, scratch: str | None, *, frame_bytes: int, output_bytes: int, flood_factor: int = FLOOD_FACTOR
    ) -> None:
        self._scratch = scratch
        self.mark = secrets.token_hex(8).encode()
        """Known to the process's own bootstrap only, so that text which looks like a frame is none."""
        self._begin = SENTINEL + self.mark
        self._frame_bytes, self._flood_bytes = frame_bytes, output_bytes * flood_factor
        self._frame: list[bytes] | None = None
        self._framed_bytes = 0
        self._rest = b""
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
        """Id of the process."""
        return self._transport.get_pid()

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self._transport.get_returncode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        if isinstance(transport, SpawnedProcess):
            self._scratch = transport.scratch

    def send(self, line: bytes) -> None:
        """Send one frame, a line of JSON that ends with a line feed."""
        pipe = self._transport.get_pipe_transport(_STDIN)
        if pipe is not None and not pipe.is_closing():
            cast("asyncio.WriteTransport", pipe).write(line)

    def limit_cpu(self, cpu_s: int) -> None:
        """Have the kernel end it after so much time on processors, whoever is left to end it then [s].

        Does nothing where there is no jail.
        """
        if isinstance(self._transport, SpawnedProcess):
            self._transport.limit_cpu(cpu_s)

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
            self._said(data)

    def _text(self, where: Text, data: bytes | memoryview) -> None:
        where.add(data)
        if where.total_bytes > self._flood_bytes:
            self.listener.flooded("What the code printed is", self._flood_bytes)

    def _said(self, data: bytes) -> None:
        """Frames, and text around them. Text is not cut into lines, of which it may have very many."""
        at = 0
        if self._frame is None:
            data, self._rest = self._rest + data, b""
        while at < len(data):
            parts = self._frame
            at = self._text_until_frame(data, at) if parts is None else self._part_of_frame(parts, data, at)

    def _text_until_frame(self, data: bytes, at: int) -> int:
        begin = data.find(self._begin, at)
        if begin < 0:
            end = len(data) - _begun(data, self._begin)
            self._rest = data[end:]
            if end > at:
                self._text(self.out, data[at:end])
            return len(data)
        if begin > at:
            self._text(self.out, data[at:begin])
        self._frame, self._framed_bytes = [], 0
        return begin + len(self._begin)

    def _part_of_frame(self, parts: list[bytes], data: bytes, at: int) -> int:
        end = data.find(b"\n", at)
        parts.append(data[at : end if end >= 0 else len(data)])
        self._framed_bytes += len(parts[-1])
        if self._framed_bytes > self._frame_bytes:
            parts.clear()
            self.listener.flooded("What the code returned is", self._frame_bytes)
        elif end >= 0:
            self.listener.frame(b"".join(parts))
        if end >= 0:
            self._frame = None
            return end + 1
        return len(data)

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
        if self._rest:
            self._text(self.out, self._rest)
        self._kill_group()
        self._transport.close()
        # That of a spawned process is still there only if the spawner died with it.
        if self._scratch is not None and os.path.exists(self._scratch):  # noqa: PTH110 - once per run
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
        if isinstance(self._transport, SpawnedProcess):
            # Of what a spawner has started, the group is its to kill: it alone knows whose number it still is.
            if self.returncode is None:
                with suppress(ProcessLookupError):
                    self._transport.kill()
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def _begun(data: bytes, begin: bytes) -> int:
    """How many bytes at the end of ``data`` may be the first of ``begin``, which is not in it."""
    at = data.rfind(begin[:1], max(len(data) - len(begin) + 1, 0))
    while at >= 0:
        if begin.startswith(data[at:]):
            return len(data) - at
        at = data.rfind(begin[:1], max(len(data) - len(begin) + 1, 0), at)
    return 0


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
    if command.walled:
        child = await spawner.start(command.order, partial(Child, None, **sizes))
    elif command.scratch is None:
        child = await _started(command, None, sizes)
    else:
        scratch = tempfile.mkdtemp(prefix=command.scratch)
        try:
            child = await _started(command, scratch, sizes)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
    child.send(b'{"t":"hello","mark":"%s"}\n' % child.mark)
    return child


async def _started(command: Command, scratch: str | None, sizes: Mapping[str, int]) -> Child:
    """Where there are no walls nothing has to be done between fork and exec, so that nobody has to fork for long."""
    _, child = await asyncio.get_running_loop().subprocess_exec(
        partial(Child, scratch, **sizes),
        *command.words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=command.folder,
        env={name: value.replace(SCRATCH, scratch or "") for name, value in command.environment.items()},
        close_fds=True,
        start_new_session=True,
    )
    # Threads that it has by now stay as they are; it has hardly begun.
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, child.pid, NICE)
    return child
