"""Who is connected, in which mode, and what that costs in tokens: a list of tools, and a task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from pml_hookspecs import RawObject, encode
from pml_kit.offers import CONNECTIONS, VIEWS, View, required

if TYPE_CHECKING:
    from pml_console.gateways import GatewayState
    from pml_console.visit import Visit
    from pml_hookspecs import ExecutionRecord
    from pml_kit.offers import ClientConnection

BYTES_PER_TOKEN = 4
UNNAMED = "no name"


@dataclass(frozen=True, slots=True)
class WayIn:
    """An endpoint, as clients of one mode are shown it."""

    endpoint: str
    mode: str
    tools: int | None
    """How many a local client is listed; None for a mode that no endpoint has."""
    list_tokens: int | None
    """Of that list [tokens]."""
    task_tokens: int | None
    """Median of the latest tasks: what was asked and what was answered [tokens]; None where there were none."""
    tasks: int
    """How many that is the median of."""
    clients: Mapping[str, int]
    """How many are connected, by who they are."""

    @property
    def connected(self) -> int:
        """How many there are of them all."""
        return sum(self.clients.values())


def clients_of(visit: Visit) -> Sequence[ClientConnection]:
    """Those that are connected, as far as the reader may know of them."""
    return required(visit.site.services, CONNECTIONS).clients(visit.session)


async def ways_in_of(visit: Visit, others: Sequence[GatewayState] = ()) -> Sequence[WayIn]:
    """All endpoints, and the modes in which clients are connected to them besides, at ``others`` as well."""
    tasks = await _task_tokens(visit)
    connected = sum((gateway.clients for gateway in others), Counter(map(_who, clients_of(visit))))
    views = required(visit.site.services, VIEWS)
    known = {(view.endpoint, view.mode): view for view in views.endpoints()}
    besides = sorted({(endpoint, mode) for _, _, endpoint, mode in connected} - known.keys())
    ways = []
    for endpoint, mode in (*known, *besides):
        view = known.get((endpoint, mode), View(endpoint, mode))
        listed = await views.listed(view.mode, intent=view.intent) if (endpoint, mode) in known else None
        sizes = tasks.get((endpoint, mode), [])
        ways.append(
            WayIn(
                endpoint,
                mode,
                None if listed is None else len(listed),
                None if listed is None else sum(entry.tokens for entry in listed),
                round(median(sizes)) if sizes else None,
                len(sizes),
                {_name(*who): count for (*who, at, way), count in connected.items() if (at, way) == (endpoint, mode)},
            )
        )
    return ways


async def _task_tokens(visit: Visit) -> Mapping[tuple[str, str], list[int]]:
    """Of the latest tasks that have ended, by endpoint and mode."""
    found: dict[tuple[str, str], list[int]] = {}
    for record in await visit.history.latest():
        if record.duration_ms is not None:
            found.setdefault((record.endpoint, record.mode), []).append(_tokens(record))
    return found


def _tokens(record: ExecutionRecord) -> int:
    """Of what was asked and what was answered; an answer that is kept in part counts as a whole."""
    response = record.response
    whole = response.get("size_bytes") if isinstance(response, Mapping) and response.get("truncated") is True else None
    size_bytes = whole if isinstance(whole, int) else 0 if response is None else _size_bytes(response)
    return (_size_bytes(record.request) + size_bytes) // BYTES_PER_TOKEN


def _size_bytes(value: object) -> int:
    return len(value.raw if isinstance(value, RawObject) else encode(value))


def _who(client: ClientConnection) -> tuple[str, str, str, str]:
    return client.client, client.principal, client.endpoint, client.mode


def _name(client: str, principal: str) -> str:
    return (client or UNNAMED) if principal == "local" else f"{client or UNNAMED} ({principal})"
