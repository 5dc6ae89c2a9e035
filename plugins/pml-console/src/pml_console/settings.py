"""``[plugins.console]``."""

from __future__ import annotations

from dataclasses import dataclass

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Who gets in, and for how long."""

    one_time_token: str = setting(
        "", "Lets one browser in where no keys are needed; `pml console` makes one for each start.", secret=True
    )
    session_s: float = setting(12 * 3600.0, "How long a log-in lasts [s].", ge=60)
    max_sessions: int = setting(20, "Log-ins of one principal at a time; the oldest ends first.", ge=1)
