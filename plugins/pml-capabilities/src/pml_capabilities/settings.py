"""What ``[plugins.capabilities]`` may say."""

from __future__ import annotations

from dataclasses import dataclass

from pml_hookspecs import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the executor and of the hook plugin, which share one table."""

    learn: bool = setting(True, "Keep code that ended well with an intent. False: what is kept stays usable.")
    proven_after: int = setting(
        3, "How often a capability must have ended well before clients find it beside tools [runs].", ge=1, le=1000
    )
    least_success: float = setting(
        0.8, "Least share of its runs that must have ended well for that, in [0, 1].", ge=0, le=1
    )
    shared: bool = setting(
        False,
        "Let everybody run and find what anybody's code taught. False: only those whose own code did.",
        project="never",
    )
    server: str = setting(
        "capability", "Name of the server that proven capabilities are listed under; no configured server may have it."
    )
    keep: int = setting(
        1000, "Most capabilities to keep of each who taught them; those changed longest ago go first.", ge=1, le=100_000
    )
    longest_code: int = setting(50_000, "Longer code is not learned [characters].", ge=1)
    alike: float = setting(
        0.85,
        "From which likeness of intents on two capabilities with the same tools and inputs are one for clients, who "
        "are then shown the better; in [0, 1].",
        ge=0,
        le=1,
    )
    refresh_s: float = setting(5.0, "How often to look whether tools have changed [s].", ge=0.1, le=3600)
