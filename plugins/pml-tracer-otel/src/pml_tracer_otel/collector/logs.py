"""Records of other plugins, as OTLP logs. Imports much; used in a thread only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from opentelemetry._logs import LogRecord as ApiLogRecord
from opentelemetry._logs import SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from pml_hookspecs import replace
from pml_tracer_otel.options import LOGS, options_of, protocol_of
from pml_tracer_otel.settings import Settings

from .exports import DISTRIBUTION, SUCCESS, ExporterLog, exporter_of, resource_of

if TYPE_CHECKING:
    from pml_hookspecs import Services
    from pml_kit.offers import LogRecord

OFF = "OTEL_SDK_DISABLED says that nothing is exported"
SEVERITIES = {"info": SeverityNumber.INFO, "warn": SeverityNumber.WARN, "error": SeverityNumber.ERROR}
_exports: WeakKeyDictionary[Any, LogExports] = WeakKeyDictionary()
"""By the gateway's catalog, the one thing that all services of a gateway share."""


def exported(services: Services, records: Sequence[LogRecord]) -> str:
    """Export; why the collector did not take them (``""`` if it did)."""
    try:
        if (found := _exports.get(services.catalog)) is None:
            found = _exports[services.catalog] = LogExports(services.settings or Settings())
        return found(records)
    except Exception as exc:  # variables that do not fit, and what a version of the exporter lets through
        return f"{type(exc).__name__}: {exc}"


class LogExports:
    """Sends records to the collector of ``[plugins.otel]``."""

    def __init__(self, settings: Settings) -> None:
        """Raises ValueError where settings or variables do not fit."""
        if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            raise ValueError(OFF)
        options = options_of(settings, os.environ)
        protocol = protocol_of(settings, os.environ, LOGS)
        self._resource = resource_of(options)
        self._scope = InstrumentationScope(DISTRIBUTION, metadata.version(DISTRIBUTION))
        self._exporter = exporter_of(replace(options, protocols={LOGS: protocol}), LOGS)

    def __call__(self, records: Sequence[LogRecord]) -> str:
        """Send them; why they were not taken (``""`` if they were)."""
        complaints = ExporterLog(lambda _complaint: None)
        try:
            result = self._exporter.export([self._made(record) for record in records])
            return "" if result.name == SUCCESS else complaints.last()
        finally:
            complaints.close()

    def _made(self, record: LogRecord) -> ReadableLogRecord:
        made = ApiLogRecord(
            timestamp=record.at_ns, observed_timestamp=record.at_ns, severity_text=record.severity.upper(),
            severity_number=SEVERITIES[record.severity], body=record.body, event_name=record.event,
            attributes=dict(record.attributes),
        )  # fmt: skip
        return ReadableLogRecord(made, self._resource, self._scope)
