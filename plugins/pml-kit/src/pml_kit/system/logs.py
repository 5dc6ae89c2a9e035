"""Logs: structlog on standard error, secrets taken out. Standard output belongs to the protocol.

structlog is imported when something is first said: it costs as much as a fifth of a cold start.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from pml_kit.system.redaction import Redactor

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Logs:
    """The process's log configuration; hands out :class:`Log`."""

    def __init__(self, level: str = "info", form: str = "console", redactor: Redactor | None = None) -> None:
        self.threshold = LEVELS[level]
        self.form = form
        self.redactor = redactor or Redactor()

    def level(self, level: str) -> None:
        """Have lines of ``level`` and above written from now on."""
        self.threshold = LEVELS[level]

    @functools.cached_property
    def structlog(self) -> Any:
        """Structlog's logger, configured."""
        # structlog.dev imports rich when it is installed, for tracebacks that are not used here: 200 ms.
        hidden = sys.modules.get("rich")
        sys.modules["rich"] = None  # type: ignore[assignment]
        try:
            import structlog
        finally:
            del sys.modules["rich"]
            if hidden is not None:
                sys.modules["rich"] = hidden
        render: Any = structlog.processors.JSONRenderer()
        if self.form == "console":
            plain = structlog.dev.plain_traceback
            render = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)
        return structlog.wrap_logger(
            structlog.PrintLogger(sys.stderr),
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
                self._redact,
                render,
                self._redact_line,
            ],
            wrapper_class=structlog.BoundLogger,
        )

    def _redact(self, _logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        return {key: self.redactor.value(value) for key, value in event.items()}

    def _redact_line(self, _logger: Any, _method: str, line: Any) -> str:
        """Once more when it is written: objects show what they hold only then."""
        return self.redactor.text(line)

    def get(self, **bound: Any) -> Log:
        """A logger with ``bound`` on every line."""
        return Log(self, bound)


class Log:
    """A structlog logger that is not there until it says something."""

    __slots__ = ("_bound", "_logger", "_logs")

    def __init__(self, logs: Logs, bound: dict[str, Any]) -> None:
        self._logs, self._bound, self._logger = logs, bound, None

    def bind(self, **fields: Any) -> Log:
        """The same with more on every line."""
        return Log(self._logs, {**self._bound, **fields})

    def is_enabled_for(self, level: int) -> bool:
        """Whether a line of ``level`` (a number of :mod:`logging`) would be written."""
        return level >= self._logs.threshold

    def _say(self, level: int, method: str, event: str, fields: dict[str, Any]) -> None:
        if level < self._logs.threshold:
            return
        if self._logger is None:
            try:
                self._logger = self._logs.structlog.bind(**self._bound)
            except (OSError, ImportError):
                # No file can be opened, which is what is to be said: what fails here is answered to nobody.
                said = " ".join(f"{name}={value!r}" for name, value in {**self._bound, **fields}.items())
                sys.stderr.write(self._logs.redactor.text(f"[{method}] {event} {said}\n"))
                return
        getattr(self._logger, method)(event, **fields)

    def debug(self, event: str, **fields: Any) -> None:
        """For whoever mends PML."""
        self._say(logging.DEBUG, "debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """What the operator may like to know."""
        self._say(logging.INFO, "info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something works less well than asked for."""
        self._say(logging.WARNING, "warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Something does not work."""
        self._say(logging.ERROR, "error", event, fields)

    def critical(self, event: str, **fields: Any) -> None:
        """The gateway cannot go on."""
        self._say(logging.CRITICAL, "critical", event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """An error with the traceback of the exception being handled."""
        self._say(logging.ERROR, "error", event, {"exc_info": True, **fields})


class Silence:
    """A logger that keeps quiet."""

    def bind(self, **_fields: Any) -> Silence:
        """Itself."""
        return self

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda *_event, **_fields: None
