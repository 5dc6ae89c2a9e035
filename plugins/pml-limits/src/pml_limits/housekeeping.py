"""Background work: budgets are written, leases renewed, and what this process counts is noted for others."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from .usage import COLLECTION

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .wrapper import Limiter

TELL_S = 2.0
"""How often a gateway tells what it counts by itself [s]."""
TOLD_FOR_S = 10.0
"""How long that is believed [s]."""


@asynccontextmanager
async def upkeep(limiter: Limiter, services: Services) -> AsyncIterator[None]:
    """Keep up what needs it, until the gateway goes down."""
    services.spawn(limiter.budgets.keep_writing, name="budgets")
    if limiter.shared_slots is None:
        services.spawn(_tell, limiter, services, name="use")
    else:
        services.spawn(limiter.shared_slots.renew, name="leases")
    try:
        yield
    finally:
        await limiter.budgets.write()
        if limiter.shared_slots is None:
            await services.store.documents.delete(COLLECTION, _gateway())
        else:
            await limiter.shared_slots.settle()


async def _tell(limiter: Limiter, services: Services) -> None:
    told_before = False
    while True:
        told = _use_of(limiter)
        if told or told_before:
            services.store.documents.put_soon(
                COLLECTION,
                _gateway(),
                {"gateway": _gateway(), "told": told},
                expires_at=datetime.now(UTC) + timedelta(seconds=TOLD_FOR_S),
            )
        told_before = bool(told)
        await asyncio.sleep(TELL_S)


def _gateway() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _use_of(limiter: Limiter) -> list[dict[str, Any]]:
    """What this process counts by itself, as it is told in the store."""
    told: dict[str, dict[str, Any]] = {}
    rates = () if limiter.rates is None else [rated for limits in limiter.rules.seen() for rated in limits.rates]
    windows = {} if limiter.rates is None else limiter.rates.windows.kept
    for limit, *_ in rates:
        window = windows.get(limit.key)
        if window is not None and window.used() >= 1:
            about = {"rule": limit.name, "whose": dict(limit.whose), "what": "rate"}
            told[f"rate\n{limit.key}"] = about | window.plain()
    for key, count in limiter.slots.taken.items():
        limit = limiter.slots.limits[key]
        told[key] = {"rule": limit.name, "whose": dict(limit.whose), "what": "concurrency", "used": count}
    return list(told.values())
