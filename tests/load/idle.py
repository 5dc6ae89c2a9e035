"""What a client costs that is connected and does nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from clients import HANDSHAKE, STATELESS, McpClient, SessionClient, connect, crowd, leave
from processes import cpu_s, open_files, resident_mb
from rate import SPARE_FILES
from stage import Stage, Store, stage
from usage import raise_limit, rest

WARM_CLIENTS = 50
LOOK_S = 20.0
"""How long the processor time of idle clients is counted [s]."""


async def measure(count: int, store: Store, folder: Path, look_s: float = LOOK_S) -> list[dict[str, Any]]:
    """Connect so many clients of each era, each to a fresh gateway, twice; what came out, by era.

    Raises:
        LoadError: A client was refused, or a process may not open enough files.
    """
    raise_limit(count * 4 // 3 + SPARE_FILES)
    found = []
    for era, share in ((HANDSHAKE, 1.0), (STATELESS, 0.0)):
        place = folder / era
        place.mkdir()
        with stage(place, 1, store) as running:
            found.append({"era": era, "clients": count, **await _measured(running, count, share, look_s)})
    return found


async def _measured(running: Stage, count: int, share: float, look_s: float) -> dict[str, Any]:
    pids = running.pids
    await leave(await _came(running, WARM_CLIENTS, share))
    await rest(pids)
    before_mb, begun_s = resident_mb(pids), cpu_s(pids)
    clients = await _came(running, count, share)
    connected_s = cpu_s(pids) - begun_s
    with_mb, files = resident_mb(pids), open_files(pids)
    looked_s = cpu_s(pids)
    await asyncio.sleep(look_s)
    looked_s = cpu_s(pids) - looked_s
    lost = sum(client.lost for client in clients if isinstance(client, SessionClient))
    await leave(clients)
    await rest(pids)
    left_mb = resident_mb(pids)
    clients = await _came(running, count, share)
    again_mb = resident_mb(pids)
    await leave(clients)
    return {
        "kb_per_client": (with_mb - before_mb) * 1000 / count,
        "kb_per_client_again": (again_mb - before_mb) * 1000 / count,
        "memory_mb": {"before": before_mb, "with_all": with_mb, "left": left_mb, "with_all_again": again_mb},
        "cpu_ms_per_client_connecting": connected_s / count * 1000,
        "cores_idle": looked_s / look_s,
        "open_files": files,
        "streams_lost": lost,
        "complaints": running.said(),
    }


async def _came(running: Stage, count: int, share: float) -> list[McpClient]:
    clients = crowd(running.urls, count, share)
    await connect(clients, resting=True)
    await rest(running.pids)
    return clients
