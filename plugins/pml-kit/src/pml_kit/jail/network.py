"""A network of its own for a process: a loopback interface, and on it sockets whose other end is outside.

A socket belongs to the network that it was made in, whoever holds it: what listens inside is accepted from outside. So
a process reaches exactly those whom somebody outside connects it with, by any protocol over TCP and without a word of
proxies.

Facts: ``network_namespaces(7)``, ``netdevice(7)``, ``unix(7)`` of Linux.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

NAMES = ("11.0.0.1", "255.0.0.0")
"""An address, and the mask of its network, out of which names get addresses that lead nowhere else. It is one of the
public networks that nobody serves anything in: many a server refuses names that lead into a private one."""
MOST_PORTS = 64
_SET_FLAGS, _SET_ADDRESS, _SET_MASK = 0x8914, 0x8916, 0x891C
_UP = 1
_DOMAIN = ("127.0.0.1", 53)
"""Where resolvers ask that find no ``/etc/resolv.conf``."""


def sockets(ports: Sequence[int], addresses: Sequence[str]) -> list[socket.socket]:
    """Bring up the interface of the network that this process is in, and listen there.

    Args:
        ports: TCP, on each address.
        addresses: IPv4 addresses besides :data:`NAMES` and those of the loopback network.

    Returns:
        One that gets what resolvers ask, and one that listens for each port, in their order.

    Raises:
        OSError: The process has no rights over its network.
    """
    import fcntl  # not on every system that imports this module

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP))
        for number, (address, mask) in enumerate([NAMES, *((one, "255.255.255.255") for one in addresses)], 1):
            for what, value in ((_SET_ADDRESS, address), (_SET_MASK, mask)):
                request = struct.pack("16sHH4s8x", b"lo:%d" % number, socket.AF_INET, 0, socket.inet_aton(value))
                fcntl.ioctl(control, what, request)
    made = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
    made[0].bind(_DOMAIN)
    for port in ports:
        made.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        made[-1].bind(("", port))
        made[-1].listen(socket.SOMAXCONN)
    return made
