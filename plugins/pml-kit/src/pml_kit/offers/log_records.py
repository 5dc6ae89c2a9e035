"""Records of what happened, handed to whatever collects them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pml_hookspecs import Key


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
