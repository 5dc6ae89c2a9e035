"""Which process of which machine this is, and whether another one is gone."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pml_kit.processes import is_surely_gone, machine, started


@dataclass(frozen=True, slots=True)
class Process:
    """One run of one process."""

    id: str
    machine: str
    """This start of this machine, or of the container that has process numbers of its own; ``""`` when not known."""
    pid: int
    started: str
    """Tells it from later processes of the same number; ``""`` when not known."""

    @classmethod
    def current(cls) -> Self:
        """This one."""
        pid = os.getpid()
        return cls(uuid.uuid4().hex, machine(), pid, started(pid))

    @classmethod
    def from_plain(cls, id: str, plain: Mapping[str, Any]) -> Self:
        """What :meth:`plain` wrote."""
        return cls(id, str(plain.get("machine", "")), int(plain.get("pid", 0)), str(plain.get("started", "")))

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"machine": self.machine, "pid": self.pid, "started": self.started}

    def is_surely_gone(self) -> bool:
        """Whether it ran on this machine and does not any more; False when that cannot be told."""
        return is_surely_gone(self.pid, self.started, self.machine)
