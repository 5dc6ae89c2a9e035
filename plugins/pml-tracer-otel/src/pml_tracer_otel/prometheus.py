"""What Prometheus is told, in its text format (0.0.4): what was measured, and how the gateway is."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pml_kit.offers import READINESS

from .measures import BOUNDS_S, Metric, Point

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from pml_hookspecs import Services

    from .active_tracers import ActiveTracer

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FOREIGN = re.compile(r"[^a-zA-Z0-9_]")
TYPES = {"counter": "counter", "level": "gauge", "histogram": "histogram"}

STATES = ("starting", "up", "idle", "down", "disabled")
"""Of servers: one that none is in says 0, so that it can be drawn and compared."""


class GatewayMetrics:
    """Implements :class:`pml_kit.offers.MetricsPage`."""

    def __init__(self, tracer: ActiveTracer, services: Services) -> None:
        self._tracer, self._services = tracer, services

    async def page(self) -> str:
        """All as they are now."""
        settings = self._tracer.options.settings
        name = settings.service_name or os.environ.get("OTEL_SERVICE_NAME") or "pml"
        levels = [self._servers(), *await self._ready()]
        return page([*self._tracer.measures.now(), *levels], {**settings.resource, "service.name": name})

    def _servers(self) -> Metric:
        found = Counter[str](server.state for server in self._services.catalog.servers())
        points = tuple(Point({"state": state}, found[state]) for state in STATES)
        return Metric("pml.servers", "{server}", "Servers that are configured, by state.", "level", points)

    async def _ready(self) -> list[Metric]:
        readiness = self._services.find(READINESS)
        if readiness is None:
            return []
        points = tuple(Point({"part": part.name}, int(part.ready)) for part in await readiness.parts())
        return [Metric("pml.ready", "", "Whether a part of the gateway can do its work, as 1 or 0.", "level", points)]


def page(metrics: Iterable[Metric], about: Mapping[str, str]) -> str:
    """``metrics``, and what the gateway says about itself."""
    lines = [
        "# HELP target_info Attributes of the gateway.",
        "# TYPE target_info gauge",
        f"target_info{_labels(about)} 1",
    ]
    lines += [line for metric in metrics for line in _lines(metric)]
    return "\n".join([*lines, ""])


def _lines(metric: Metric) -> Iterator[str]:
    name = FOREIGN.sub("_", metric.name)
    if metric.unit == "s":
        name += "_seconds"
    if metric.kind == "counter":
        name += "_total"
    yield f"# HELP {name} {metric.description}"
    yield f"# TYPE {name} {TYPES[metric.kind]}"
    for point in metric.points:
        if metric.kind == "histogram":
            yield from _histogram(name, point)
        else:
            yield f"{name}{_labels(point.attributes)} {point.value!r}"


def _histogram(name: str, point: Point) -> Iterator[str]:
    counts = list(accumulate(point.buckets))
    for bound, count in zip([*(f"{bound:g}" for bound in BOUNDS_S), "+Inf"], counts, strict=True):
        yield f"{name}_bucket{_labels({**point.attributes, 'le': bound})} {count}"
    yield f"{name}_sum{_labels(point.attributes)} {point.value!r}"
    yield f"{name}_count{_labels(point.attributes)} {counts[-1]}"


def _labels(attributes: Mapping[str, str]) -> str:
    if not attributes:
        return ""
    return "{" + ",".join(f'{FOREIGN.sub("_", name)}="{_escaped(value)}"' for name, value in attributes.items()) + "}"


def _escaped(value: str) -> str:
    text = value.encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def routes(tracer: ActiveTracer, found: GatewayMetrics) -> list[Any]:
    """What listeners serve under ``/otel/``: ``GET /metrics`` for Prometheus, if wanted, and ``GET /health``."""
    try:
        from starlette.responses import JSONResponse, PlainTextResponse
        from starlette.routing import Route
    except ModuleNotFoundError:
        return []  # no listener that has routes is installed

    async def metrics(_request: Request) -> Response:
        return PlainTextResponse(await found.page(), media_type=CONTENT_TYPE)

    async def health(_request: Request) -> Response:
        return JSONResponse(dict(await tracer.health()))

    served = [Route("/health", health, methods=["GET"])]
    return [Route("/metrics", metrics, methods=["GET"]), *served] if tracer.options.prometheus else served
