"""``pml`` on a machine of its own, whose clock is wrong: ``skewed_gateway.py SECONDS MACHINE ARGUMENT ...``."""

from __future__ import annotations

import socket
import sys
from datetime import UTC, datetime, timedelta

from pml_kit import processes
from pml_testing.fixtures_clock import REAL, FrozenClock, frozen


class Ahead(FrozenClock):
    """Goes on, and is ahead of the clock of this machine."""

    @property
    def now(self) -> datetime:
        """UTC."""
        return REAL.now(UTC) + AHEAD

    @now.setter
    def now(self, _: datetime) -> None:
        """Nobody sets it."""


if __name__ == "__main__":
    AHEAD, machine = timedelta(seconds=float(sys.argv[1])), sys.argv[2]
    socket.gethostname = lambda: machine
    # Nobody sees from here whether a process of another machine has ended.
    processes.machine = lambda: machine
    with frozen() as clock:
        clock.__class__ = Ahead
        from pml_core.cli import main

        sys.exit(main(sys.argv[3:]))
