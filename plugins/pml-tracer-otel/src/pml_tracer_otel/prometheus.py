"""Metrics in Prometheus' text format (0.0.4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING

from .measures import BOUNDS_S

if TYPE_CHECKING:
    from .measures import Metric, Point

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FOREIGN = re.compile(r"[^a-zA-Z0-9_]")
TYPES = {"counter": "counter", "level": "gauge", "histogram": "histogram"}


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
