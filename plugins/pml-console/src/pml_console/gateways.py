"""What the gateways on one store say of themselves, so that a page of one shows the servers and clients of all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Identity
from pml_kit.identifiers import gateway_name
from pml_kit.offers import CONNECTIONS, required
from pml_kit.processes import is_surely_gone, machine, started
from pml_kit.shared.lease import Leases

if TYPE_CHECKING:
    from pml_hookspecs import Document, Services, Session

GATEWAYS = "console.gateways"
EVERY_S, BEAT_S, LEASE_S = 2.0, 10.0, 30.0
"""How often it is looked whether something differs, said that the gateway lives, and how long one is silent until it
does not [s]."""
KEPT = timedelta(days=1)
MOST_GATEWAYS, MOST_CLIENTS = 100, 200
UNREMARKABLE = frozenset({"up", "idle"})


@dataclass(frozen=True, slots=True)
class GatewayState:
    """Another gateway that lives."""

    name: str
    """Its host and its process."""
    since: datetime
    """When it began to say so."""
    servers: Sequence[Mapping[str, Any]]
    """``name``, ``state``, ``reason`` and ``next_attempt`` (ISO 8601 or None) of each, by name."""
    clients: Counter[tuple[str, str, str, str]]
    """How many are connected, by name, principal, endpoint and mode."""

    @property
    def failing(self) -> Sequence[Mapping[str, Any]]:
        """Servers that are neither up nor wait for their first call."""
        return [one for one in self.servers if one["state"] not in UNREMARKABLE]


async def tell(services: Services) -> None:
    """Keep saying how this gateway's servers are and who is connected, until it is cancelled."""
    documents, told, beat, since = services.store.documents, None, 0, asyncio.get_running_loop().time()
    operator = services.session(Identity(principal="local", scopes=frozenset({"system"})), client="console")
    pid, begun_at = os.getpid(), datetime.now(UTC).isoformat()
    own = {"host": socket.gethostname(), "pid": pid, "started": started(pid), "machine": machine(), "since": begun_at}
    try:
        while True:
            state, now_s = _state(services, operator), asyncio.get_running_loop().time()
            if state != told or now_s >= since + BEAT_S:
                told, since, beat = state, now_s, beat + 1
                value = {**own, "beat": beat, **state}
                documents.put_soon(GATEWAYS, gateway_name(), value, expires_at=datetime.now(UTC) + KEPT)
            await asyncio.sleep(EVERY_S)
    finally:
        with contextlib.suppress(Exception):
            await documents.delete(GATEWAYS, gateway_name())


async def others_of(services: Services, leases: Leases) -> Sequence[GatewayState]:
    """The other gateways on this store that live, by name.

    Args:
        services: Whose store.
        leases: The same at each call, since one that is silent is known only by having been looked at before.
    """
    found = await services.store.documents.find(GATEWAYS, limit=MOST_GATEWAYS)
    told = {one.key: one for one in found.items if one.key != gateway_name()}
    living = leases.living(GATEWAYS, {key: one.value["beat"] for key, one in told.items()}, (), LEASE_S)
    return sorted((_gateway(told[key]) for key in living if not _is_gone(told[key])), key=lambda one: one.name)


def _gateway(document: Document) -> GatewayState:
    value = document.value
    return GatewayState(
        name=f"{value['host']}, process {value['pid']}",
        since=datetime.fromisoformat(value["since"]),
        servers=value["servers"],
        clients=Counter({tuple(one["who"]): one["count"] for one in value["clients"]}),
    )


def _is_gone(document: Document) -> bool:
    """Whether it was a process of this machine that has ended, as only a killed one leaves its word behind."""
    value = document.value
    return is_surely_gone(value["pid"], value["started"], value["machine"])


def _state(services: Services, operator: Session) -> Mapping[str, Any]:
    connections = required(services, CONNECTIONS)
    attempts = connections.next_attempts()
    servers = [
        {
            "name": one.name,
            "state": one.state,
            "reason": services.redact(one.reason),
            "next_attempt": _text(attempts.get(one.name)),
        }
        for one in services.catalog.servers(None)
    ]
    clients = Counter((one.client, one.principal, one.endpoint, one.mode) for one in connections.clients(operator))
    return {
        "servers": servers,
        "clients": [{"who": list(who), "count": count} for who, count in clients.most_common(MOST_CLIENTS)],
    }


def _text(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
