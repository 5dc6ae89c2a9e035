"""What ``search_tools`` answers, as tokens that the model reads."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from pml_hookspecs import Session, ToolCall, ToolId
from pml_hookspecs.tokens import text_of_result

from .queries import SEARCH_TOOL

if TYPE_CHECKING:
    from pml_hookspecs import Services

    from .modes import Sizes

MOST_ASKED = 50
"""Searches that are made to measure their answers: each is an execution."""
AGENT = "pml eval"


async def answer_tokens(services: Services, sizes: Sizes, texts: Sequence[str]) -> float | None:
    """Tokens of an answer in the mean over a sample of queries; None when ``search_tools`` is not there.

    The searches are rehearsals by a principal of their own: they are in nobody's history, and nothing is learned from
    them.
    """
    if services.catalog.get(ToolId(SEARCH_TOOL)) is None:
        return None
    session, counted = Session(key=AGENT, principal=AGENT), []
    for text in texts[:MOST_ASKED]:
        task = ToolCall(id="search", tool=ToolId(SEARCH_TOOL), arguments={"query": text})
        outcome = await services.run(task, session, dry_run=True, trigger="manual", agent=AGENT)
        if outcome.status.good:
            counted.append(sizes.text(text_of_result(outcome.output)))
    return fmean(counted) if counted else None
