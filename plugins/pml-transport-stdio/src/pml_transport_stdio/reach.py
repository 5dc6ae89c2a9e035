"""Whom a server in a network of its own reaches: hosts by their names, each at the ports that are allowed.

The server asks for a name and gets an address that leads nowhere but here; what it connects there is connected with the
host from outside. So no proxy has to be understood, TLS stays between the two, and whatever else it asks for or
connects to does not exist: no other host, no port of this machine, nobody who would carry words away in a name.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pml_kit.jail.network import NAMES

_CHUNK_BYTES = 64 << 10
_MOST_NAMES, _MOST_CONNECTIONS = 4096, 256
_FIRST = int(ipaddress.IPv4Address(NAMES[0])) + 1
_QUERY_BYTES, _HEADER_BYTES = 512, 12
_ADDRESS_RECORD, _INTERNET = 1, 1
_NO_SUCH_NAME, _UNABLE = 3, 2
_CONNECT_S = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """A host, and a port of it."""

    host: str
    """A name, ``*.`` and the end of names, ``*`` for every name, or an IPv4 address; in small letters."""
    port: int

    @classmethod
    def of(cls, text: str) -> Place:
        """From ``host:port``.

        Raises:
            ValueError: It is none; the message says what one looks like.
        """
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16 or ":" in host or "/" in host:
            raise ValueError(f"{text!r} is no place; write 'host:port', such as 'api.github.com:443' or '*:443'")
        if "*" in host.removeprefix("*"):
            raise ValueError(f"{text!r}: a * stands for every name, or at the beginning, as in '*.github.com:443'")
        return cls(host.lower(), int(port))

    def is_elsewhere(self) -> bool:
        """Whether the host is an IPv4 address, and not one that every network has."""
        return _is_address(self.host) and not ipaddress.IPv4Address(self.host).is_loopback

    def fits(self, host: str) -> bool:
        """Whether a name, or an address, is that of the host."""
        end = self.host.removeprefix("*")
        return host == self.host or (end != self.host and not _is_address(host) and host.endswith(end))


def _is_address(text: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.IPv4Address(text))
    return False


class _NotPublicError(Exception):
    """A host that a ``*`` stands for is not everybody's."""


class Forwarder:
    """Connects what a server connects. Lives on the event loop; :meth:`close` ends all of it."""

    def __init__(self, places: Sequence[Place], log: Any, server: str) -> None:
        """Nothing happens yet.

        Args:
            places: That may be reached.
            log: Gets each place that was refused, once.
            server: Its name, for the log.
        """
        self._places, self._log, self._server = places, log, server
        self._names: dict[str, str] = {}
        """Names by their addresses."""
        self._addresses: dict[str, str] = {}
        self._told: set[str] = set()
        self._resolver: socket.socket | None = None
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, channel: socket.socket) -> None:
        """Wait for the server's sockets and serve them; ``channel`` is closed."""
        channel.setblocking(False)
        asyncio.get_running_loop().add_reader(channel, self._take, channel)

    def _take(self, channel: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(channel)
        with channel:
            try:
                _, descriptors, _, _ = socket.recv_fds(channel, 1, 1 + len({place.port for place in self._places}))
            except OSError:
                return
        if not descriptors:
            return  # its end: no server was started
        self._resolver, *self._listeners = (socket.socket(fileno=one) for one in descriptors)
        for one in (self._resolver, *self._listeners):
            one.setblocking(False)
        loop.add_reader(self._resolver, self._answer, self._resolver)
        for listener in self._listeners:
            self._start(self._accept(listener))

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        if self._resolver is not None:
            asyncio.get_running_loop().remove_reader(self._resolver)
            self._resolver.close()
        for listener in self._listeners:
            listener.close()

    # Names.

    def _answer(self, resolver: socket.socket) -> None:
        with suppress(OSError, ValueError):
            asked, who = resolver.recvfrom(_QUERY_BYTES)
            name, kind, question = _question(asked)
            known = any(place.fits(name) for place in self._places)
            address = self._address(name) if known and kind == _ADDRESS_RECORD else None
            if not known:
                self._refuse(name)
            failed = 0 if known else _NO_SUCH_NAME
            if known and kind == _ADDRESS_RECORD and address is None:
                failed = _UNABLE
            record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(address) if address else b""
            counts = bytes([0, 1, 0, 1 if address else 0, 0, 0, 0, 0])
            resolver.sendto(asked[:2] + bytes([0x85, 0x80 | failed]) + counts + question + record, who)

    def _address(self, name: str) -> str | None:
        """An address for a name; None when there are too many names."""
        if name not in self._addresses and len(self._addresses) < _MOST_NAMES:
            address = str(ipaddress.IPv4Address(_FIRST + len(self._addresses)))
            self._addresses[name], self._names[address] = address, name
        return self._addresses.get(name)

    def _refuse(self, what: str) -> None:
        if what not in self._told and len(self._told) < _MOST_NAMES:
            self._told.add(what)
            remedy = f"name it in [servers.{self._server}] sandbox network, if it is meant"
            self._log.warning("stdio.sandbox_refused", server=self._server, host=what, remedy=remedy)

    # Connections.

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:  # no more descriptors, or it was reset before it was taken
                await asyncio.sleep(0.1)
                continue
            if len(self._tasks) >= _MOST_CONNECTIONS:
                connection.close()
            else:
                self._start(self._serve(connection))

    async def _serve(self, connection: socket.socket) -> None:
        address, port = connection.getsockname()
        inside = await asyncio.open_connection(sock=connection)
        outside = None
        try:
            host = self._names.get(address, address)
            place = next((one for one in self._places if one.port == port and one.fits(host)), None)
            if place is None:
                self._refuse(f"{host}:{port}")
                return
            async with asyncio.timeout(_CONNECT_S):
                to = await _public(host, port) if place.host.startswith("*") else host
                outside = await asyncio.open_connection(to, port)
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(inside[0], outside[1]))
                both.create_task(_copy(outside[0], inside[1]))
        except _NotPublicError as error:
            self._refuse(str(error))
        except (OSError, TimeoutError, ExceptionGroup) as error:
            self._log.debug("stdio.sandbox_connection_failed", server=self._server, problem=str(error))
        finally:
            for end in (inside, outside):
                if end is not None:
                    end[1].close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(_CHUNK_BYTES):
        sink.write(data)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


async def _public(host: str, port: int) -> str:
    """An address of a host that a ``*`` stands for.

    Raises:
        _NotPublicError: It has none that is everybody's: names can be made to lead into networks that are not.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for *_, address in found:
        number = ipaddress.ip_address(address[0])
        if number.is_global and not number.is_multicast and number.version == 4:  # noqa: PLR2004 - a version
            return str(number)
    raise _NotPublicError(f"{host}:{port}, whose address is not public")


def _question(asked: bytes) -> tuple[str, int, bytes]:
    """Name in small letters, type, and the question as it was asked.

    Raises:
        ValueError: It is no question with one name.
    """
    at, labels = _HEADER_BYTES, []
    if len(asked) < _HEADER_BYTES or asked[2] & 0x80 or asked[4:6] != b"\0\1":
        raise ValueError("no question")
    while size := asked[at : at + 1]:
        at += 1
        if size == b"\0":
            break
        labels.append(asked[at : at + size[0]].decode("ascii"))
        at += size[0]
    if len(asked) < at + 4 or int.from_bytes(asked[at + 2 : at + 4]) != _INTERNET:
        raise ValueError("no question")
    return ".".join(labels).lower(), int.from_bytes(asked[at : at + 2]), asked[_HEADER_BYTES : at + 4]
