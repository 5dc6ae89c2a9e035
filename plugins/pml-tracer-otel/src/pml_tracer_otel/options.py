"""What the settings and the standard environment variables come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import util
from typing import Literal

from .settings import Settings

HTTP, GRPC = "http/protobuf", "grpc"
SIGNALS, LOGS = ("traces", "metrics"), "logs"
HTTP_MODULE, GRPC_MODULE = "opentelemetry.exporter.otlp.proto.http", "opentelemetry.exporter.otlp.proto.grpc"
SAMPLERS: Mapping[str, tuple[bool, float | None]] = {
    "always_on": (False, 1.0),
    "always_off": (False, 0.0),
    "traceidratio": (False, None),
    "parentbased_always_on": (True, 1.0),
    "parentbased_always_off": (True, 0.0),
    "parentbased_traceidratio": (True, None),
}
"""Whether a client's decision counts first, and the part that is kept; None for the sampler's argument."""
NUMBERS: Mapping[str, tuple[str, float, float]] = {
    "buffer_spans": ("OTEL_BSP_MAX_QUEUE_SIZE", 1, 16_384),
    "batch_spans": ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 1, 128),
    "interval_s": ("OTEL_BSP_SCHEDULE_DELAY", 1000, 1.0),
    "metrics_interval_s": ("OTEL_METRIC_EXPORT_INTERVAL", 1000, 60.0),
    "timeout_s": ("OTEL_EXPORTER_OTLP_TIMEOUT", 1, 10.0),
}
"""The variable of a setting, by how much its unit is smaller, and what holds where nobody says anything.

A batch is small because encoding one holds up the event loop: some 40 µs for each span.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How this gateway is to be observed."""

    settings: Settings
    traces: bool
    """Spans are exported."""
    metrics: bool
    """Metrics are exported."""
    prometheus: bool
    """Metrics can be scraped."""
    protocols: Mapping[str, str]
    """By signal: :data:`HTTP` or :data:`GRPC`."""
    follow: bool
    """A client's trace goes on."""
    propagate: bool
    """Servers are told the trace."""
    baggage: bool
    """Servers are told the client's baggage."""
    client_decides: bool
    """Whether a client's decision to keep its trace or not counts here."""
    sample_ratio: float
    """Part of the traces to keep otherwise, in ``[0, 1]``."""
    delta: bool
    """Metrics are exported as what has changed since the last time, not as what there is in all."""
    buffer_spans: int
    batch_spans: int
    interval_s: float
    metrics_interval_s: float
    timeout_s: float

    @property
    def watches(self) -> bool:
        """Whether there is anything to do."""
        return self.traces or self.metrics or self.prometheus


def options_of(settings: Settings, environ: Mapping[str, str]) -> Options:
    """What ``settings`` say, and where they do not, ``environ``.

    Raises:
        ValueError: An environment variable does not fit, or what they ask for is not installed; says what to do.
    """
    on = environ.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"
    exports = {signal: on and _exports(settings, environ, signal) for signal in SIGNALS}
    client_decides, ratio = _sampling(settings, environ)
    propagators = _words(environ.get("OTEL_PROPAGATORS")) or ["tracecontext", "baggage"]
    numbers = {
        name: getattr(settings, name) or (_number(environ, variable) or 0) / unit or default
        for name, (variable, unit, default) in NUMBERS.items()
    }
    buffer_spans = int(numbers.pop("buffer_spans"))
    return Options(
        settings=settings,
        traces=exports["traces"],
        metrics=exports["metrics"],
        prometheus=on and settings.prometheus,
        protocols={signal: protocol_of(settings, environ, signal) for signal in SIGNALS if exports[signal]},
        follow=settings.follow_clients and "tracecontext" in propagators,
        propagate=settings.propagate and exports["traces"] and "tracecontext" in propagators,
        baggage="baggage" in propagators,
        client_decides=client_decides,
        sample_ratio=ratio,
        delta=_delta(environ),
        buffer_spans=buffer_spans,
        batch_spans=min(int(numbers.pop("batch_spans")), buffer_spans),
        **numbers,
    )


def configured(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether anybody has said where the collector is."""
    variables = ("OTEL_EXPORTER_OTLP_ENDPOINT", *(f"OTEL_EXPORTER_OTLP_{s.upper()}_ENDPOINT" for s in SIGNALS))
    return bool(settings.endpoint) or any(environ.get(variable) for variable in variables)


def _exports(settings: Settings, environ: Mapping[str, str], signal: str) -> bool:
    said: bool | None = settings.traces if signal == "traces" else settings.metrics
    if said is not None:
        return said
    exporters = _words(environ.get(f"OTEL_{signal.upper()}_EXPORTER"))
    return not exporters or "otlp" in exporters


def protocol_of(settings: Settings, environ: Mapping[str, str], signal: str) -> Literal["http/protobuf", "grpc"]:
    """How a signal is exported.

    Raises:
        ValueError: It is none of these, or not installed.
    """
    variables = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    variable = next((name for name in variables if environ.get(name)), "")
    protocol = settings.protocol or environ.get(variable, "").strip() or HTTP
    if protocol == HTTP:
        return "http/protobuf"
    if protocol != GRPC:
        raise ValueError(f"{variable} is {protocol!r}; set it, or protocol in [plugins.otel], to {HTTP} or {GRPC}")
    if not _has(GRPC_MODULE):
        raise ValueError(f"protocol {GRPC} is not installed; pip install 'pml-tracer-otel[grpc]', or use {HTTP}")
    return "grpc"


def _has(module: str) -> bool:
    try:
        return util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _sampling(settings: Settings, environ: Mapping[str, str]) -> tuple[bool, float]:
    if settings.sample_ratio is not None:
        return True, settings.sample_ratio
    name = environ.get("OTEL_TRACES_SAMPLER", "").strip() or "parentbased_always_on"
    if name not in SAMPLERS:
        raise ValueError(f"OTEL_TRACES_SAMPLER is {name!r}; set it to one of {', '.join(SAMPLERS)}")
    client_decides, ratio = SAMPLERS[name]
    if ratio is None:
        ratio = _number(environ, "OTEL_TRACES_SAMPLER_ARG")
        ratio = 1.0 if ratio is None else ratio
        if ratio > 1:
            raise ValueError(f"OTEL_TRACES_SAMPLER_ARG is {ratio:g}; set it to a number from 0 to 1")
    return client_decides, ratio


def _delta(environ: Mapping[str, str]) -> bool:
    variable = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
    preference = environ.get(variable, "").strip().lower() or "cumulative"
    if preference not in ("cumulative", "delta", "lowmemory"):
        raise ValueError(f"{variable} is {preference!r}; set it to cumulative, delta or lowmemory")
    return preference != "cumulative"


def _words(text: str | None) -> list[str]:
    return [word for part in (text or "").split(",") if (word := part.strip().lower())]


def _number(environ: Mapping[str, str], variable: str) -> float | None:
    text = environ.get(variable, "").strip()
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(f"{variable} is {text!r}; set it to a number that is not negative")
    return number
