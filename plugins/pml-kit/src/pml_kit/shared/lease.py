"""Leases on what several gateways share: who holds one says so again every few seconds, by a number that changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping


class Leases:
    """Judges by the clock of this process alone, since those of different machines differ.

    Whose number this process has seen unchanged for the whole lease is gone. That one may only have stood still: when
    it goes on, and finds that it is not among the holders any more, it has lost what it held.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """``clock`` never goes back [s]; None for that of the process."""
        self._clock = clock
        self._seen: dict[str, dict[str, tuple[object, float]]] = {}
        """By document and holder: its number, and since when it is that one."""

    def living(self, document: str, beats: Mapping[str, object], own: Container[str], lease_s: float) -> set[str]:
        """Those that are not gone.

        Args:
            document: Which one was read.
            beats: The numbers that stand in it, by holder.
            own: Holders of this process, which are never gone.
            lease_s: How long a number may stay the same [s].
        """
        now_s, before = (self._clock or time.monotonic)(), self._seen.pop(document, {})
        seen = {}
        for holder, beat in beats.items():
            known = before.get(holder)
            seen[holder] = (beat, now_s) if known is None or known[0] != beat else known
        if seen:
            self._seen[document] = seen
        return {holder for holder, (_, since_s) in seen.items() if holder in own or now_s - since_s < lease_s}
