"""Which process of which machine this is, and whether another one is gone."""

from __future__ import annotations

import os
import platform
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self


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
        return cls(uuid.uuid4().hex, _machine(), pid, _started(pid))

    @classmethod
    def from_plain(cls, id: str, plain: Mapping[str, Any]) -> Self:
        """What :meth:`plain` wrote."""
        return cls(id, str(plain.get("machine", "")), int(plain.get("pid", 0)), str(plain.get("started", "")))

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"machine": self.machine, "pid": self.pid, "started": self.started}

    def is_surely_gone(self) -> bool:
        """Whether it ran on this machine and does not any more; False when that cannot be told."""
        if not self.started or not self.machine or self.machine != _machine():
            return False
        return _started(self.pid) != self.started


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{platform.node()} {boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When the kernel started it, in its own ticks; a process that ended and was not waited for has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]
