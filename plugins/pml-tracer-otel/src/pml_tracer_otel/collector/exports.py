"""From what was watched to OTLP, with OpenTelemetry's own exporters. Imports much; used in the thread only."""

from __future__ import annotations

import importlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as SdkMetric
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from pml_hookspecs import replace
from pml_tracer_otel.measures import BOUNDS_S, Point
from pml_tracer_otel.options import GRPC, GRPC_MODULE, HTTP_MODULE
from pml_tracer_otel.spans import Spans

if TYPE_CHECKING:
    from pml_tracer_otel.active_executions import ActiveExecution, ServerCall
    from pml_tracer_otel.measures import Measures, Metric
    from pml_tracer_otel.options import Options

DISTRIBUTION = "pml-tracer-otel"
LOGGER = "opentelemetry.exporter"
NOTHING: Any = None
"""Extremes are not kept; OTLP has them as optional."""
SUCCESS = "SUCCESS"
NO_REASON = "the collector did not take it"


class Exports:
    """Sends spans and metrics to the collector."""

    def __init__(self, options: Options, heard: Callable[[str], None] = lambda _complaint: None) -> None:
        """Nothing is sent yet; what an exporter complains about in this thread is ``heard`` at once."""
        self._resource = resource_of(options)
        self._scope = InstrumentationScope(DISTRIBUTION, metadata.version(DISTRIBUTION))
        self._complaints = ExporterLog(heard)
        self._spans = Spans(self._resource, self._scope, users=options.settings.users)
        self._span_exporter: SpanExporter | None = exporter_of(options, "traces")
        self._metric_exporter: MetricExporter | None = exporter_of(options, "metrics")
        self._delta = MetricDeltas() if options.delta else None
        self._lock, self.given_up = threading.Lock(), False

    def spans(self, items: Iterable[ActiveExecution | ServerCall]) -> tuple[int, str]:
        """Export; how many of them are spans at all, and why the collector did not take them (``""`` if it did)."""
        if self._span_exporter is None:
            return 0, ""
        made = [span for item in items if (span := self._spans.of(item)) is not None]
        if not made:
            return 0, ""
        return len(made), self._problem_of(self._span_exporter.export, made)

    def probe(self) -> str:
        """Export no span at all; why the collector did not take even that (``""`` if it did)."""
        return "" if self._span_exporter is None else self._problem_of(self._span_exporter.export, [])

    def _problem_of(self, export: Callable[[Any], SpanExportResult | MetricExportResult], what: Any) -> str:
        """Export; why that failed (``""`` if it did not)."""
        try:
            result = export(what)
        except Exception as exc:  # some versions let through what the connection raises
            return f"{type(exc).__name__}: {exc}"
        return "" if result.name == SUCCESS else self._complaints.last()

    def metrics(self, measures: Measures) -> str:
        """Export all metrics as they are now; why the collector did not take them (``""`` if it did)."""
        if self._metric_exporter is None:
            return ""
        metrics, now_ns = measures.now(), time.time_ns()
        start_ns = measures.start_ns
        if self._delta is not None:
            metrics, start_ns = self._delta.since_last(metrics), self._delta.last_ns or start_ns
        data = self._data(metrics, start_ns, now_ns, delta=self._delta is not None)
        problem = self._problem_of(self._metric_exporter.export, data)
        if self._delta is not None and not problem:
            self._delta.taken(now_ns)
        return problem

    def _data(self, metrics: Sequence[Metric], start_ns: int, now_ns: int, *, delta: bool) -> MetricsData:
        made = [_sdk_metric(metric, start_ns, now_ns, delta=delta) for metric in metrics]
        scope = ScopeMetrics(scope=self._scope, metrics=made, schema_url="")
        return MetricsData([ResourceMetrics(resource=self._resource, scope_metrics=[scope], schema_url="")])

    def give_up(self) -> None:
        """Give up what is under way. In any thread; may wait for it."""
        with self._lock:
            before, self.given_up = self.given_up, True
        for exporter in (self._span_exporter, self._metric_exporter):
            if exporter is not None and not before:
                exporter.shutdown()

    def close(self) -> None:
        """End; in the thread that exports."""
        self.give_up()
        self._complaints.close()


class ExporterLog(logging.Handler):
    """Keeps what the exporters log, which would otherwise go to standard error with each attempt."""

    def __init__(self, heard: Callable[[str], None]) -> None:
        super().__init__()
        self._last, self._heard, self._mine = "", heard, threading.get_ident()
        self._logger = logging.getLogger(LOGGER)
        self._logger.propagate = False
        self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it, in place of the one before."""
        if record.thread == self._mine:
            self._last = record.getMessage()
            self._heard(self._last)

    def last(self) -> str:
        """What was said last; forgotten with this."""
        last, self._last = self._last, ""
        return last or NO_REASON

    def close(self) -> None:
        """Keep nothing more."""
        self._logger.removeHandler(self)
        if not any(isinstance(handler, ExporterLog) for handler in self._logger.handlers):
            self._logger.propagate = True
        super().close()


class MetricDeltas:
    """What has changed since metrics were last taken."""

    def __init__(self) -> None:
        """Nothing was taken yet."""
        self.last_ns: int | None = None
        self._before: dict[Any, Point] = {}
        self._now: dict[Any, Point] = {}

    def since_last(self, metrics: Sequence[Metric]) -> list[Metric]:
        """``metrics`` less what was taken; what goes up and down stays as it is."""
        self._now = {_series(m, p): p for m in metrics if m.kind != "level" for p in m.points}
        less = []
        for metric in metrics:
            points = tuple(self._less(metric, point) for point in metric.points)
            changed = tuple(p for p in points if metric.kind == "level" or p.value or any(p.buckets))
            if changed:
                less.append(replace(metric, points=changed))
        return less

    def _less(self, metric: Metric, point: Point) -> Point:
        before = None if metric.kind == "level" else self._before.get(_series(metric, point))
        if before is None:
            return point
        buckets = tuple(now - then for now, then in zip(point.buckets, before.buckets, strict=True))
        return Point(point.attributes, point.value - before.value, buckets)

    def taken(self, now_ns: int) -> None:
        """The collector has what :meth:`since_last` gave."""
        self._before, self.last_ns = self._now, now_ns


def _series(metric: Metric, point: Point) -> Any:
    return (metric.name, tuple(sorted(point.attributes.items())))


def _sdk_metric(metric: Metric, start_ns: int, now_ns: int, *, delta: bool) -> SdkMetric:
    temporality = AggregationTemporality.DELTA if delta else AggregationTemporality.CUMULATIVE
    times: dict[str, Any] = {"start_time_unix_nano": start_ns, "time_unix_nano": now_ns}
    data: Any
    if metric.kind == "histogram":
        points = [
            HistogramDataPoint(
                attributes=dict(p.attributes), count=sum(p.buckets), sum=p.value, bucket_counts=p.buckets,
                explicit_bounds=BOUNDS_S, min=NOTHING, max=NOTHING, **times,
            )
            for p in metric.points
        ]  # fmt: skip
        data = Histogram(data_points=points, aggregation_temporality=temporality)
    else:
        counts = metric.kind == "counter"
        data = Sum(
            data_points=[NumberDataPoint(attributes=dict(p.attributes), value=p.value, **times) for p in metric.points],
            aggregation_temporality=temporality if counts else AggregationTemporality.CUMULATIVE,
            is_monotonic=counts,
        )
    return SdkMetric(name=metric.name, description=metric.description, unit=metric.unit, data=data)


def resource_of(options: Options) -> Resource:
    """What the gateway is called. The settings win over the environment, the environment over defaults."""
    said: dict[str, Any] = dict(options.settings.resource)
    if options.settings.service_name:
        said[SERVICE_NAME] = options.settings.service_name
    resource = Resource.create(said)
    defaults: dict[str, Any] = {"service.instance.id": str(uuid.uuid4())}
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "pml"}))
    try:
        defaults["service.version"] = metadata.version("pml-core")
    except metadata.PackageNotFoundError:
        defaults["service.version"] = metadata.version("pml-hookspecs")
    return Resource(defaults).merge(resource)


EXPORTERS = {
    "traces": "trace_exporter.OTLPSpanExporter",
    "metrics": "metric_exporter.OTLPMetricExporter",
    "logs": "_log_exporter.OTLPLogExporter",
}
"""In the packages of both protocols."""


def exporter_of(options: Options, signal: str) -> Any:
    """OpenTelemetry's own for a signal; None where that is not exported."""
    if signal not in options.protocols:
        return None
    package = GRPC_MODULE if options.protocols[signal] == GRPC else HTTP_MODULE
    module, _, name = EXPORTERS[signal].partition(".")
    return getattr(importlib.import_module(f"{package}.{module}"), name)(**_where(options, signal))


def _where(options: Options, signal: str) -> dict[str, Any]:
    """Parameters of an exporter; what is left out it takes from the environment."""
    settings, grpc = options.settings, options.protocols[signal] == GRPC
    given: dict[str, Any] = {"timeout": options.timeout_s}
    if settings.endpoint and grpc:
        given |= {"endpoint": settings.endpoint, "insecure": urlsplit(settings.endpoint).scheme != "https"}
    elif settings.endpoint:
        given["endpoint"] = f"{settings.endpoint.rstrip('/')}/v1/{signal}"
    if settings.headers:
        headers: Mapping[str, str] = {name.lower(): value for name, value in settings.headers.items()}
        given["headers"] = tuple(headers.items()) if grpc else dict(headers)
    return given
