"""``[plugins.suggester]``."""

from __future__ import annotations

from dataclasses import dataclass

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How plans are made."""

    ask_model: bool = setting(
        default=True, description="Let the client's own model plan, where the client offers sampling."
    )
    max_steps: int = setting(8, "Most tasks of a plan.", ge=1, le=50)
    max_candidates: int = setting(24, "Most tools that the model is shown.", ge=2, le=100)
    max_tokens: int = setting(2000, "Most that the model may write [tokens].", ge=200)
    least_score: float = setting(0.5, "Least relevance of a tool to its clause, 0 to 1.", ge=0, le=1)
