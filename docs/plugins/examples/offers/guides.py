"""A text that says how a team's tools are used together. Clients find it as a resource and a prompt, models by what
people ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pml_hookspecs import Offer, hookimpl
from pml_kit.offers import GUIDES, Guide

TEXT = """
# Releases

1. `git:git_log` since the last tag says what is in it.
2. `tickets:close` closes what it mends.
3. `chat:post` tells the team, last.
"""


@hookimpl
def pml_offers() -> Iterable[Offer[Any]]:
    guide = Guide(
        name="releases",
        description="How this team releases: which tools in which order.",
        text=TEXT,
        questions=("how do I release", "what comes after a merge"),
    )
    return [Offer(GUIDES, guide)]
