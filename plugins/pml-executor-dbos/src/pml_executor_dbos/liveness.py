"""Which process a worker is, and whether it is gone."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from pml_kit.processes import started


@dataclass(frozen=True, slots=True)
class Worker:
    """One gateway process: a restart is another worker."""

    id: str
    """``<name>/<random>``: no two starts have the same."""
    beat: int
    """Grows with each sign of life."""
    machine: str
    """Same text: process ids mean the same. ``""`` where that cannot be told."""
    pid: int
    born: str
    """Tells two processes apart that had the same id one after the other; ``""`` where that cannot be told."""

    @property
    def name(self) -> str:
        """As configured; ``""`` for none."""
        return self.id.rpartition("/")[0]


def is_gone(worker: Worker, here: str) -> bool:
    """Whether ``worker`` ran on the machine ``here`` and does not any more."""
    return bool(here) and worker.machine == here and started(worker.pid) != worker.born


class LivenessMonitor:
    """Tells by their beats which workers are dead. Compares no clocks of different machines."""

    def __init__(self, lease_s: float, me: Worker) -> None:
        self._lease_s, self._me = lease_s, me
        self._seen: dict[str, tuple[int, float]] = {}

    def dead(self, workers: Mapping[str, Worker]) -> set[str]:
        """Ids of those that are gone, were silent for the whole lease, or had this one's own name before it."""
        now = time.monotonic()
        self._seen = {id_: seen for id_, seen in self._seen.items() if id_ in workers}
        found = set()
        for worker in workers.values():
            if worker.id == self._me.id:
                continue
            beat, since = self._seen.get(worker.id, (None, now))
            if beat != worker.beat:
                self._seen[worker.id] = (worker.beat, since := now)
            same_name = bool(worker.name) and worker.name == self._me.name
            if same_name or is_gone(worker, self._me.machine) or now - since >= self._lease_s:
                found.add(worker.id)
        return found
