"""``pml plugins doctor``: does the collector take anything?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pml_hookspecs import Check, replace

from .measures import Measures
from .options import options_of

if TYPE_CHECKING:
    from .settings import Settings

PROBE_S = 3.0
"""Longest that one attempt may take [s]."""
TITLE = "collector"


def check(settings: Settings, environ: Mapping[str, str]) -> Check:
    """Send it nothing, and see what it says."""
    try:
        options = options_of(settings, environ)
    except ValueError as exc:
        return Check(TITLE, ok=False, detail=str(exc), remedy="Correct the variable, or [plugins.otel].")
    if not options.traces and not options.metrics:
        return Check(TITLE, ok=True, detail="nothing is exported")
    from .collector.exports import Exports

    exports = Exports(replace(options, timeout_s=min(PROBE_S, options.timeout_s)))
    try:
        problems = {"traces": exports.probe(), "metrics": exports.metrics(Measures())}
    finally:
        exports.close()
    refused = [f"no {signal}: {problem}" for signal, problem in problems.items() if problem]
    if not refused:
        return Check(TITLE, ok=True, detail="takes what is sent")
    remedy = "Start it, or correct endpoint and headers in [plugins.otel]; traces or metrics can be switched off there."
    return Check(TITLE, ok=False, detail="; ".join(refused), remedy=remedy)
