"""Has processes started by a small process, because a large one that forks stands still meanwhile.

To fork a gateway takes milliseconds, and all its clients wait for that. The walls of a jail can only be put up between
fork and exec, so there is no way around a fork; but it need not be the gateway's (measured: 17 ms of the event loop for
each process started at load, 1.3 ms without a fork).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, TypeVar, cast

P = TypeVar("P", bound=asyncio.SubprocessProtocol)
MOST_BYTES = 1 << 18
READ_BYTES = 1 << 14
"""Taken from a stream before others have their turn [bytes]."""
STDIN, STDOUT, STDERR = range(3)
KILLED = -9
FULL_S = 0.001
"""Wait before the next try when the connection is full [s]."""
LAST_WORK_S = 1.0
"""Longest that closing waits for the process to end what it has started and remove their folders; it takes it
milliseconds [s]."""
INHERITED = ("LD_LIBRARY_PATH",)
"""What Python itself may need to start, where it was built in an unusual place."""


class _Pipe(asyncio.Protocol):
    """One stream of a process, handed on to whoever knows the process."""

    def __init__(self, protocol: asyncio.SubprocessProtocol, number: int) -> None:
        self._protocol, self._number = protocol, number

    def data_received(self, data: bytes) -> None:
        self._protocol.pipe_data_received(self._number, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.pipe_connection_lost(self._number, exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


class SpawnedProcess(asyncio.SubprocessTransport):
    """A process that the spawner has started."""

    def __init__(self, pid: int, scratch: str | None, tell: Callable[[int, Mapping[str, int]], None]) -> None:
        super().__init__()
        self._pid, self._tell = pid, tell
        self.scratch = scratch
        """Its folder, which the spawner removes when it has ended; None without one."""
        self._returncode: int | None = None
        self._protocol: asyncio.SubprocessProtocol | None = None
        self._pipes: dict[int, asyncio.BaseTransport] = {}

    def get_pid(self) -> int:
        return self._pid

    def get_returncode(self) -> int | None:
        return self._returncode

    def get_pipe_transport(self, fd: int) -> asyncio.BaseTransport | None:
        return self._pipes.get(fd)

    def kill(self) -> None:
        """End it and its group."""
        if self._returncode is None:
            self._tell(self._pid, {"kill": self._pid})

    def limit_cpu(self, cpu_s: int) -> None:
        """Have the kernel end it once it has used so much time on processors, all threads counted [s]."""
        if self._returncode is None:
            self._tell(self._pid, {"limit": self._pid, "cpu_s": cpu_s})

    def close(self) -> None:
        for pipe in self._pipes.values():
            pipe.close()
        self.kill()

    def ended(self, status: int) -> None:
        """It has ended, and all of its group; which may be known before anybody is there to hear of it."""
        if self._returncode is None:
            self._returncode = status
            if self._protocol is not None:
                self._protocol.process_exited()

    async def connect(self, ends: list[int], protocol: asyncio.SubprocessProtocol) -> None:
        """Take over this side's ends of its streams, off the list, and tell ``protocol`` of it from now on."""
        loop = asyncio.get_running_loop()
        protocol.connection_made(self)
        for number in range(len(ends)):
            connect = loop.connect_write_pipe if number == STDIN else loop.connect_read_pipe
            mode = "wb" if number == STDIN else "rb"
            pipe = open(ends.pop(0), mode, buffering=0)  # noqa: SIM115, ASYNC230, PTH123 - kept
            try:
                made, _ = await connect(lambda number=number: _Pipe(protocol, number), pipe)  # type: ignore[misc]
            except BaseException:
                pipe.close()
                raise
            with suppress(AttributeError):  # the loop is of another kind than asyncio's own
                cast("Any", made).max_size = READ_BYTES
            self._pipes[number] = made
        self._protocol = protocol
        if self._returncode is not None:
            protocol.process_exited()


class Spawner:
    """The process that starts others; started when it is first needed, and again should it be gone."""

    def __init__(self) -> None:
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._asked: dict[int, asyncio.Future[SpawnedProcess]] = {}
        self._living: dict[int, SpawnedProcess] = {}
        self._number = 0

    async def start(self, order: bytes, make: Callable[[], P]) -> P:
        """Start a process in a jail, and a session and process group of its own.

        Args:
            order: What to start, as :attr:`pml_sandbox.child.Command.order` says it.
            make: Makes what hears of it.

        Raises:
            OSError: It cannot be started.
            subprocess.SubprocessError: A wall of its jail does not go up.
        """
        theirs, ours = _pipes()
        protocol = make()
        try:
            transport = await self._order(order, theirs)
            try:
                await transport.connect(ours, protocol)
            except BaseException:
                transport.close()
                raise
        finally:
            for end in (*theirs, *ours):
                os.close(end)
        return protocol

    async def _order(self, order: bytes, descriptors: Sequence[int]) -> SpawnedProcess:
        connection = self._up()
        self._number = number = self._number + 1
        answer: asyncio.Future[SpawnedProcess] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            await self._send(connection, b'{"id":%d,%b' % (number, order[1:]), descriptors)
        except BaseException:
            self._asked.pop(number, None)
            raise
        return await answer

    async def _send(self, connection: socket.socket, raw: bytes, descriptors: Sequence[int]) -> None:
        while True:
            try:
                socket.send_fds(connection, [raw], descriptors)
            except BlockingIOError:
                await asyncio.sleep(FULL_S)
            except ConnectionError as exc:
                self._lost()
                raise OSError("the process that starts sandboxes is gone; the next call starts another") from exc
            else:
                return

    def _tell(self, pid: int, message: Mapping[str, int]) -> None:
        if self._connection is None or pid not in self._living:
            return
        try:
            self._connection.send(json.dumps(message).encode())
        except BlockingIOError:
            # Full of starts: what was to be killed must not run on for that.
            asyncio.get_running_loop().call_later(FULL_S, self._tell, pid, message)
        except ConnectionError:
            self._lost()

    def _up(self) -> socket.socket:
        if self._connection is None:
            with ExitStack() as opened:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                opened.callback(theirs.close)
                failed = opened.enter_context(ExitStack())
                failed.callback(ours.close)
                words = [sys.executable, "-I", "-m", "pml_sandbox.spawner_process", str(theirs.fileno())]
                environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                    cwd="/",
                    # Not what a terminal interrupts: the gateway lets runs end first.
                    start_new_session=True,
                    pass_fds=(theirs.fileno(),),
                )
                failed.pop_all()
            ours.setblocking(False)
            self._connection = ours
            asyncio.get_running_loop().add_reader(ours, self._read)
        return self._connection

    def _read(self) -> None:
        assert self._connection is not None  # noqa: S101 - it is what calls this
        try:
            raw = self._connection.recv(MOST_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            raw = b""
        if not raw:
            self._lost()
            return
        told = json.loads(raw)
        if "ended" in told:
            self._living.pop(told["ended"]).ended(told["status"])
            return
        answer = self._asked.pop(told["id"])
        if "pid" not in told:
            if not answer.done():
                answer.set_exception(_problem(told))
            return
        # Known from now on: that it has ended may be the next message.
        transport = self._living[told["pid"]] = SpawnedProcess(told["pid"], told["scratch"], self._tell)
        if answer.done():  # whoever asked does not want it any more
            transport.kill()
        else:
            answer.set_result(transport)

    def _lost(self) -> None:
        """It is gone, and with it, by the kernel, all that it had started."""
        if (tell := self._cut_off()) is not None:
            _end(self._process, 0)
            tell()

    def _cut_off(self) -> Callable[[], None] | None:
        """Have it end, as without a connection it does; what then tells those who wait for it. None when it is gone."""
        if self._connection is None:
            return None
        asyncio.get_running_loop().remove_reader(self._connection)
        self._connection.close()
        self._connection = None
        asked, self._asked = self._asked, {}
        living, self._living = self._living, {}

        def tell() -> None:
            for answer in asked.values():
                if not answer.done():
                    answer.set_exception(OSError("the process that starts sandboxes is gone"))
            for transport in living.values():
                transport.ended(KILLED)

        return tell

    async def close(self) -> None:
        """End it, and all that it has started."""
        if (tell := self._cut_off()) is not None:
            try:
                # Nobody else knows the folder of a process that it is starting just now.
                await asyncio.to_thread(_end, self._process, LAST_WORK_S)
            finally:
                tell()


def _end(process: subprocess.Popen[bytes] | None, patience_s: float) -> None:
    """Returns when it has ended by itself, or been killed after ``patience_s`` [s]."""
    if process is not None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
        process.kill()
        process.wait()


def _pipes() -> tuple[list[int], list[int]]:
    """Their ends and ours of three streams."""
    theirs: list[int] = []
    ours: list[int] = []
    for number in range(3):
        try:
            read, write = os.pipe2(os.O_CLOEXEC)
        except OSError:
            for end in (*theirs, *ours):
                os.close(end)
            raise
        theirs.append(read if number == STDIN else write)
        ours.append(write if number == STDIN else read)
    return theirs, ours


def _problem(told: Mapping[str, Any]) -> Exception:
    if told["kind"] == "SubprocessError":
        return subprocess.SubprocessError(told["error"])
    return OSError(told["errno"] or 0, told["error"])
