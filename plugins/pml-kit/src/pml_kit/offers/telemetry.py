"""What those ask who watch over a gateway: whether it can do its work now, what it measures, and records to collect."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pml_hookspecs import Key


@dataclass(frozen=True, slots=True)
class ReadinessPart:
    """One part of the gateway, as it is now."""

    name: str
    """A noun, such as ``store``: whoever can reach the listener may read it."""
    ready: bool
    detail: str = ""
    """More about it, such as why it is not ready, without secrets: for those who may use the gateway."""


class ReadinessCheck(Protocol):
    """Looks at something that the gateway cannot do its work without."""

    def __call__(self) -> Awaitable[Sequence[ReadinessPart]]:
        """How it is now; within 2 s, or it counts as not ready. So does one that raises."""
        ...


class Readiness(Protocol):
    """What load balancers and orchestrators ask of a gateway before they send it requests."""

    @property
    def shutting_down(self) -> bool:
        """Whether it has been told to end: it still serves, and should get no new clients."""
        ...

    async def parts(self) -> Sequence[ReadinessPart]:
        """Every part: the gateway's own and what plugins look at. It is ready when all are. Never raises."""
        ...


class MetricsPage(Protocol):
    """The metrics of this gateway, as listeners serve them at ``/metrics``."""

    async def page(self) -> str:
        """All as they are now, in Prometheus' text format (0.0.4)."""
        ...


METRICS_PAGE: Key[MetricsPage] = Key("metrics_page", MetricsPage)
"""Asked by listeners for HTTP."""
READINESS_CHECKS: Key[ReadinessCheck] = Key("readiness_checks", ReadinessCheck, several="all")
"""Asked by :class:`Readiness`."""
READINESS: Key[Readiness] = Key("readiness", Readiness)
"""The gateway's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One."""

    at_ns: int
    """Since 1970 [ns]."""
    event: str
    """What kind of event it is, such as ``pml.audit.denied``."""
    body: str
    severity: Literal["info", "warn", "error"] = "info"
    attributes: Mapping[str, str | int] = field(default_factory=dict)


class LogExport(Protocol):
    """Hands records on."""

    def __call__(self, records: Sequence[LogRecord], /) -> str:
        """Hand on these, and wait until they are taken; for one thread at a time, which it blocks.

        Returns:
            Why they were not taken, all or some; ``""`` if they were. It raises nothing.
        """
        ...


LOG_EXPORT: Key[LogExport] = Key("log_export", LogExport)
"""Used by the audit where its settings say so."""
