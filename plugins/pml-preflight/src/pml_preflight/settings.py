"""``[plugins.preflight]``."""

from __future__ import annotations

from dataclasses import dataclass

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How far a pre-flight looks back."""

    executions: int = setting(
        300,
        "Executions of the caller that estimates look through, newest first; 0: from recordings only.",
        ge=0,
        le=10_000,
    )
    check_code_s: float = setting(
        5.0,
        "Longest time in which sandboxes check one piece of code, types included; 0: code is only read [s].",
        ge=0,
        le=600,
    )
