"""The settings, ``[plugins.dag]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pml_hookspecs import setting

DAY_S = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``[plugins.dag]``."""

    max_parallel: int = setting(100, "Most tasks of one workflow under way at once [tasks].", ge=1, le=1000)
    confidence_mode: Literal["explicit_required", "suggestion", "speculative_execution"] = setting(
        "suggestion",
        "What may come of an intent without a plan: only a request for a plan, a suggestion, or its execution.",
    )
    suggest_at: float = setting(0.5, "Least confidence of a plan that is suggested.", ge=0, le=1)
    execute_at: float = setting(
        0.85, "Least confidence of a plan that is run at once, in the mode speculative_execution.", ge=0, le=1
    )
    keep_s: float = setting(
        7 * DAY_S, "How long a workflow that waits for somebody can be continued [s].", ge=60, le=365 * DAY_S
    )
