"""A line of ``pml plugins doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding."""

    subject: str
    ok: bool
    detail: str = ""
    remedy: str = ""

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {"subject": self.subject, "ok": self.ok, "detail": self.detail, "remedy": self.remedy}
