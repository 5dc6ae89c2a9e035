"""What one piece of code may use, as settings of every engine, and a piece whose turn it is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pml_hookspecs import CodeRun, setting

if TYPE_CHECKING:
    from pml_hookspecs import Run

    from .calls import Calls
    from .quota import Quota

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What one piece of code may use, in the table of every engine. One that may do without walls adds ``jail``."""

    timeout_s: float = setting(30.0, "Longest time of code that does not say itself [s].", ge=0.05, le=86400)
    memory_bytes: int = setting(512 * MIB, "Memory that code may use [bytes].", ge=32 * MIB, le=64 << 30)
    max_calls: int = setting(1000, "Tool calls that one piece of code may make.", ge=0, le=1_000_000)
    max_in_flight: int = setting(64, "Tool calls of one piece of code under way at once.", ge=1, le=1000)
    frame_bytes: int = setting(8 * MIB, "Inputs, arguments or a result, each at most so large [bytes].", ge=65536)
    output_bytes: int = setting(MIB, "What is kept of each stream that code prints on [bytes].", ge=1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings(EngineSettings):
    """The same of engines that start a process for each piece of code."""

    spare: int = setting(1, "Processes started before they are needed, some 20 MB each [processes].", ge=0, le=32)
    max_processes: int = setting(
        8, "Pieces of code that run at once; more wait, but one for a principal that has none.", ge=1, le=256
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One piece of code whose turn it is."""

    task: CodeRun
    run: Run
    inputs: bytes
    """JSON text."""
    calls: Calls
    quota: Quota
    limit_s: float
    """Its time limit [s]."""
    end_s: float | None
    """When code that waits for it gives up, on the monotonic clock; None when none waits."""

    def left_s(self) -> float:
        """What is left of the time limit; all of it for code that no other code waits for [s]."""
        return self.limit_s if self.end_s is None else max(self.end_s - time.monotonic(), 0)
