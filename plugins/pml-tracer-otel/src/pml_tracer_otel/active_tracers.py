"""Which tracer is up in which gateway: how the hooks of this distribution find it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pml_hookspecs import ExecutionId, Json, Outcome, Run, Services, Task

    from .active_executions import ActiveExecution, ServerCall
    from .measures import Measures
    from .options import Options


class ActiveTracer(Protocol):
    """What hooks use of a tracer that is up."""

    options: Options
    measures: Measures

    def seen(self, task: Task, run: Run) -> None:
        """An execution enters the chain."""
        ...

    def running(self, execution: ExecutionId) -> ActiveExecution | None:
        """An execution under way; None when it is not watched."""
        ...

    def called(self, call: ServerCall, outcome: Outcome | None) -> None:
        """A call to a server is over; None when it was cancelled."""
        ...

    async def health(self) -> Mapping[str, Json]:
        """How exporting goes."""
        ...


_up: WeakKeyDictionary[Any, ActiveTracer] = WeakKeyDictionary()
"""By the gateway's catalog, the one thing that all services of a gateway share."""


def tracer_of(services: Services) -> ActiveTracer | None:
    """The tracer of the gateway that ``services`` belong to; None when it is not among those configured."""
    return _up.get(services.catalog)


def is_up(services: Services, tracer: ActiveTracer) -> None:
    """From now on the hooks find ``tracer``."""
    _up[services.catalog] = tracer


def is_down(services: Services, tracer: ActiveTracer) -> None:
    """From now on they do not."""
    if _up.get(services.catalog) is tracer:
        del _up[services.catalog]
