"""Rows of what no wrapper sees: callers that were not let in, and requests about tasks."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .rows import SEALS, who

if TYPE_CHECKING:
    from pml_kit.offers import AccessEvent

    from .recorder import Recorder

UNKNOWN = "unknown"
"""The principal in rows about callers that were not identified."""
SILENCE_S = 60.0
"""Strangers who are refused alike, from one place, have one row at once and one for all others in this time [s]."""
MOST_PLACES = 1024
"""Places from where strangers are told apart; all others are one."""
OWN = "audit."
RESERVED = SEALS | {"at", "gateway", "kind"}
ELSEWHERE = "other addresses"


@dataclass(slots=True)
class RefusalCount:
    """Refusals from one address since its last row."""

    since_s: float
    times: int = 0
    about: dict[str, Any] | None = None
    """The last one."""


class Access:
    """Makes rows of access events. Implements :data:`pml_kit.offers.AccessWatcher`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._strangers: OrderedDict[tuple[str, str, str], RefusalCount] = OrderedDict()

    async def __call__(self, event: AccessEvent) -> None:
        """Write a row, and wait for it; of strangers who come again and again, count."""
        about = _about(event)
        if event.kind == "change":
            await self._recorder.wait(self._recorder.record(_kind(event), **about))
            return
        if event.session is not None or not self._is_repeated(event, about):
            await self._recorder.wait(self._recorder.record(event.kind, **about))

    def _is_repeated(self, event: AccessEvent, about: dict[str, Any]) -> bool:
        place = _host(event.address)
        key = (place, event.code, event.message)
        known = self._strangers.get(key)
        if known is None and len(self._strangers) >= MOST_PLACES:
            key = (ELSEWHERE, event.code, "")
            about = {**about, "address": ELSEWHERE}
            known = self._strangers.get(key)
        if known is None:
            self._strangers[key] = RefusalCount(time.monotonic())
            return False
        known.times, known.about = known.times + 1, {**about, "kind": event.kind}
        return True

    def flush(self, *, all: bool = False) -> None:
        """Write the rows that are due of those that were counted; at the end of the gateway ``all``."""
        now_s = time.monotonic()
        for key, known in tuple(self._strangers.items()):
            if not all and now_s - known.since_s < SILENCE_S:
                continue
            if known.about is None:
                del self._strangers[key]
                continue
            self._recorder.record(**known.about, times=known.times)
            known.since_s, known.times, known.about = now_s, 0, None


def _kind(event: AccessEvent) -> str:
    """The row about a change; changes of the audit itself have rows of their own."""
    return event.kind if not event.code or event.code.startswith(OWN) else event.code


def _about(event: AccessEvent) -> dict[str, Any]:
    session = event.session
    about: dict[str, Any] = {
        **{name: value for name, value in event.details.items() if name not in RESERVED},
        "target": event.target,
        "principal": "" if event.kind == "change" else UNKNOWN,
        "address": event.address,
        "execution": event.execution,
        "code": event.code,
        "message": event.message,
    }
    return about if session is None else {**about, **who(session)}


def _host(address: str) -> str:
    host, colon, port = address.rpartition(":")
    return host if colon and port.isdigit() else address
