"""What happened to keys, kept for those who audit it."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_kit.terminal import printable

if TYPE_CHECKING:
    from pml_hookspecs import Services

EVENTS = "access.events"
KEPT_S = 30 * 86_400.0
"""How long an event is kept [s]."""
SILENCE_S = 60.0
"""Time in which a refusal that repeats itself is noted once [s]."""
MOST_REMEMBERED = 1024


def _document(kind: str, members: dict[str, Any]) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        "key": f"{now.isoformat()} {secrets.token_hex(4)}",
        "value": {"kind": kind, "at": now.isoformat(), **members},
        "marks": {"kind": kind},
        "expires_at": now + timedelta(seconds=KEPT_S),
    }


async def note(services: Services, kind: str, **members: Any) -> None:
    """Keep an event; durable when it returns."""
    await services.store.documents.put(EVENTS, **_document(kind, members))


async def note_done(services: Services, kind: str, **members: Any) -> None:
    """As :func:`note`, of what a command has done already: that is told although this cannot be kept."""
    try:
        await note(services, kind, **members)
    except Exception as exc:
        from .output import tell

        services.log.warning("an event for the audit is missing", kind=kind, problem=repr(exc))
        tell(printable(f"pml: warning: it is done, but the event {kind} for the audit could not be written: {exc}"))


class Refusals:
    """Notes keys that were refused, however often that happens, in bounded space."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._noted: OrderedDict[tuple[str, str], list[float]] = OrderedDict()

    def note(self, key: str, why: str) -> None:
        """One more; ``key`` is the id of one that exists, ``""`` of none."""
        noted = self._noted.setdefault((key, why), [-SILENCE_S, 0])
        noted[1] += 1
        now_s = time.monotonic()
        if now_s - noted[0] < SILENCE_S:
            return
        count, noted[0], noted[1] = int(noted[1]), now_s, 0
        self._services.log.warning("a key was refused", key=key, reason=why, times=count)
        members = {"key": key, "reason": why, "times": count}
        self._services.store.documents.put_soon(EVENTS, **_document("key.refused", members))
        while len(self._noted) > MOST_REMEMBERED:
            self._noted.popitem(last=False)
