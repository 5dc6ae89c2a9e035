"""The hooks: they do something only where ``otel`` is among the tracers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Check, Offer, hookimpl
from pml_kit.offers import LOG_EXPORT, METRICS_PAGE

from .active_tracers import tracer_of
from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services, Wrapper
    from pml_kit.offers import LogRecord

settings_type = Settings


@hookimpl
def pml_offers(services: Services) -> Iterable[Offer[Any]]:
    """The way to the collector for records of others, whoever traces; of the tracer the metrics for ``/metrics``."""

    def export(records: Sequence[LogRecord]) -> str:
        from .collector.logs import exported

        return exported(services, records)

    logs: Offer[Any] = Offer(LOG_EXPORT, export)
    tracer = tracer_of(services)
    if tracer is None or not tracer.options.prometheus:
        return (logs,)
    from .prometheus import GatewayMetrics

    return (logs, Offer(METRICS_PAGE, GatewayMetrics(tracer, services)))


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """Around everything, to see who asks; around calls to servers, to tell them the trace."""
    tracer = tracer_of(services)
    if tracer is None:
        return ()
    from .wrappers import ClientTraceWrapper, ServerCallWrapper

    return (ClientTraceWrapper(tracer), ServerCallWrapper(tracer, services.catalog))


@hookimpl
def pml_routes(services: Services) -> Iterable[Any]:
    """``GET /otel/metrics`` and ``GET /otel/health``."""
    tracer = tracer_of(services)
    if tracer is None:
        return ()
    from .prometheus import GatewayMetrics, routes

    return routes(tracer, GatewayMetrics(tracer, services))


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:
    """Whether the collector takes anything, if somebody said where it is."""
    import os

    from .options import configured

    settings = services.settings or Settings()
    if not configured(settings, os.environ):
        return ()
    from .checks import check

    return (check(settings, os.environ),)
