"""The last answers of tools, kept in memory within bounds while the gateway runs."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .recording import Recording

MOST = 4096
MOST_BYTES = 16 * 1024 * 1024


class RecentAnswers:
    """The last answer to each call, and how it looked as bytes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Recording, bytes]] = OrderedDict()
        self._calls: OrderedDict[bytes, str] = OrderedDict()
        self._bytes = 0

    def get(self, call: str) -> Recording | None:
        """The last answer to a call; None when it is not remembered."""
        kept = self._kept.get(call)
        return None if kept is None else kept[0]

    def alike(self, look: bytes) -> Recording | None:
        """The last answer to the call that looked like this, if that answer looked the same."""
        kept = self._kept.get(self._calls.get(look, ""))
        return kept[0] if kept is not None and kept[1] == look else None

    def put(self, recording: Recording, look: bytes) -> None:
        """Remember the last answer to a call; ``look`` is a digest of call and answer as they came."""
        self._forget(recording.call)
        self._kept[recording.call] = recording, look
        self._bytes += len(recording.answer)
        while len(self._kept) > MOST or self._bytes > MOST_BYTES:
            self._forget(next(iter(self._kept)))
        self._calls[look] = recording.call
        if len(self._calls) > MOST:
            self._calls.popitem(last=False)

    def _forget(self, call: str) -> None:
        kept = self._kept.pop(call, None)
        if kept is not None:
            self._bytes -= len(kept[0].answer)
