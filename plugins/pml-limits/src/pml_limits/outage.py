"""What is said when the store cannot be used: once a minute."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pml_hookspecs import Services

SILENCE_S = 60.0
"""An outage that lasts is heard once in this time [s]."""


class Outage:
    """Notes outages of the store."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._heard: dict[str, float] = {}
        self.count = 0
        """How often the store could not be used."""

    def noted(self, what: str, exc: Exception) -> None:
        """Count one, and tell the operator ``what`` it means."""
        self.count += 1
        now_s = time.monotonic()
        if now_s - self._heard.get(what, -SILENCE_S) >= SILENCE_S:
            self._heard[what] = now_s
            self._services.log.warning("the store cannot be used", so=what, problem=repr(exc))
