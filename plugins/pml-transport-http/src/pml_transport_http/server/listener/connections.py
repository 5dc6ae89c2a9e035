"""Connections of clients: how many there may be, who makes way for one more, and until when each owes the rest.

Whoever connects costs the gateway a descriptor and memory before it has said who it is. So nobody is kept waiting by
those who have not: they make way first, the one that has been there longest before the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import ipaddress
import sys
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pml_transport_http.settings import Settings

SWEEP_S = 0.25
QUIET_S = 60.0
"""How long one line in the log stands for all that is refused [s]."""
SHARE = 3, 4
"""Part of the process's descriptors that clients may have; the rest is for servers, stores and files."""
IPV6_NETWORK = 64
"""What one customer of a provider has: addresses within count as one [bits]."""


class Claim(enum.IntEnum):
    """What a connection may say for itself when there are too many, least first."""

    STRANGER = 0
    """No request of it was let in."""
    IDLE = 1
    """None is being served, though some were."""
    SENDING = 2
    """One was let in, and its body is not there yet."""
    SERVED = 3
    """One is being served. Never makes way."""


class Connection(Protocol):
    """What is asked of a connection."""

    def claim(self) -> Claim:
        """Its claim to its place."""

    def overdue(self, now: float) -> bool:
        """Whether what it owes should have come, at a time of the loop's clock."""

    def expects_request(self) -> bool:
        """Whether its first request, or the rest of one, is to come."""

    def end_with_answer(self) -> None:
        """Have it end with the answer that is being given, where there is one."""

    def expire(self) -> None:
        """End it because it is overdue."""

    def evict(self) -> None:
        """End it at once."""


class Connections:
    """All connections of one listener, oldest first."""

    def __init__(self, settings: Settings, log: Any) -> None:
        """Take as many as the settings and the limit of descriptors allow."""
        self._most = capacity(settings.max_client_connections)
        self._most_per_address = settings.max_client_connections_per_address
        self._trusted = networks(settings.trusted_proxies)
        self._log = log
        self._all: dict[Connection, str] = {}
        self._by_address: dict[str, dict[Connection, None]] = {}
        self._told_at = -QUIET_S
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._all)

    def enter(self, connection: Connection, host: str) -> bool:
        """Take one more in, for which another may have to make way. False when there is no place to be had."""
        address = _counted(host)
        mine = self._by_address.get(address, {})
        crowded: Iterable[Connection] = ()
        if len(mine) >= self._most_per_address and not self._is_trusted(host):
            crowded = mine
        elif len(self._all) >= self._most:
            crowded = self._all
        if crowded:
            self._tell(host, len(mine))
            if not self._evict(crowded):
                return False
        self._all[connection] = address
        self._by_address.setdefault(address, {})[connection] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
        return True

    def expect_requests(self) -> bool:
        """Whether any expects one."""
        return any(connection.expects_request() for connection in self._all)

    def end_with_answers(self) -> None:
        """Have those end with their answers that are being given one."""
        for connection in self._all:
            connection.end_with_answer()

    def leave(self, connection: Connection) -> None:
        """Forget one; nothing happens when it is forgotten already."""
        address = self._all.pop(connection, None)
        if address is not None:
            mine = self._by_address[address]
            del mine[connection]
            if not mine:
                del self._by_address[address]

    def evict_one(self) -> bool:
        """End the one with the least claim. False when all are being served."""
        return self._evict(self._all)

    def _evict(self, among: Iterable[Connection]) -> bool:
        least, found = Claim.SERVED, None
        for connection in among:
            claim = connection.claim()
            if claim < least:
                least, found = claim, connection
            if claim is Claim.STRANGER:
                break
        if found is None:
            return False
        self.leave(found)
        found.evict()
        return True

    def _is_trusted(self, host: str) -> bool:
        return bool(self._trusted) and any(ipaddress.ip_address(host) in network for network in self._trusted)

    def _tell(self, host: str, of_it: int) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._told_at >= QUIET_S:
            with contextlib.suppress(OSError):  # out of descriptors, the log may not be able to begin
                self._log.warning("http.too_many_connections", address=host, of_it=of_it, of_all=len(self._all))
                self._told_at = now

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in [connection for connection in self._all if connection.overdue(now)]:
            connection.expire()
        self._timer = loop.call_later(SWEEP_S, self._sweep) if self._all else None

    def close(self) -> None:
        """Look after them no longer."""
        if self._timer is not None:
            self._timer.cancel()


def capacity(most: int) -> int:
    """How many connections there may be: ``most``, or what the limit of open files leaves for them."""
    if sys.platform == "win32":
        return most
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return most
    return max(min(most, soft * SHARE[0] // SHARE[1]), 1)


def networks(entries: Iterable[str]) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Addresses and networks.

    Raises:
        ValueError: One is neither.
    """
    return tuple(ipaddress.ip_network(entry, strict=False) for entry in entries)


def _counted(host: str) -> str:
    """What stands for an address where connections are counted."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_NETWORK), strict=False))
