"""Which tracer is up in which gateway: how the hooks of this distribution find it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .tracer import OtelTracer

_up: WeakKeyDictionary[Any, OtelTracer] = WeakKeyDictionary()
"""By the gateway's catalog, the one thing that all services of a gateway share."""


def tracer_of(services: Services) -> OtelTracer | None:
    """The tracer of the gateway that ``services`` belong to; None when it is not among those configured."""
    return _up.get(services.catalog)


def is_up(services: Services, tracer: OtelTracer) -> None:
    """From now on the hooks find ``tracer``."""
    _up[services.catalog] = tracer


def is_down(services: Services, tracer: OtelTracer) -> None:
    """From now on they do not."""
    if _up.get(services.catalog) is tracer:
        del _up[services.catalog]
