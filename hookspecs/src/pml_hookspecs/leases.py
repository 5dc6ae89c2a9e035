"""Who of those that share a document is gone."""

from __future__ import annotations

import time
from collections.abc import Container, Mapping


class Leases:
    """Judges by the clock of this process alone, since those of different machines differ.

    Whoever lives writes another mark every few seconds. Whose mark this process has seen unchanged for the whole lease
    is gone.
    """

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, tuple[object, float]]] = {}
        """By document and holder: its mark, and since when it is that one."""

    def living(self, document: str, marks: Mapping[str, object], own: Container[str], lease_s: float) -> set[str]:
        """Those that are not gone.

        Args:
            document: Which one was read.
            marks: What stands in it, by holder.
            own: Holders of this process, which are never gone.
            lease_s: How long a mark may stay the same [s].
        """
        now_s, before = time.monotonic(), self._seen.pop(document, {})
        seen = {}
        for holder, mark in marks.items():
            known = before.get(holder)
            seen[holder] = (mark, now_s) if known is None or known[0] != mark else known
        if seen:
            self._seen[document] = seen
        return {holder for holder, (_, since_s) in seen.items() if holder in own or now_s - since_s < lease_s}
