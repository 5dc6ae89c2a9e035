"""What was answered and what was new in a span of time, from what plugins and the catalog keep."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pml_catalog.definitions import COLLECTION, news_in
from pml_kit.pages import every_document

if TYPE_CHECKING:
    from pml_hookspecs import Document, Documents

APPROVALS = "approvals.requests"
MOST = 500
"""Answers that are told of, and changes."""
SKEW = timedelta(minutes=15)
"""How far clocks of gateways on one store may differ."""


async def approvals_of(
    documents: Documents, since: datetime, until: datetime, principal: str | None
) -> list[dict[str, Any]]:  # fmt: skip
    """Requests that were answered, the last answered first; of a ``principal`` those it asked for or answered.

    Each is ``{"answer", "by", "for", "agent", "target", "reason", "at", "execution"}``. Those that the approvals do not
    keep any more are not there.
    """
    found: list[dict[str, Any]] = []
    async for document in every_document(documents, APPROVALS):
        # What was answered in the time was changed in it, or later.
        if document.changed_at < since - SKEW or len(found) == MOST:
            break
        told = _answer(document)
        if told is not None and since.isoformat() <= told["at"] < until.isoformat():
            found += [told] if principal in (None, told["for"], told["by"]) else []
    return sorted(found, key=lambda one: str(one["at"]), reverse=True)


def _answer(document: Document) -> dict[str, Any] | None:
    value = document.value
    if not isinstance(value.get("answered_at"), str):
        return None
    state = value.get("answer") or document.marks.get("state", "")
    return {
        # One that was used had been approved.
        "answer": "approved" if state == "used" else state,
        "by": value.get("answered_by") or "",
        "for": document.marks.get("principal", ""),
        "agent": value.get("agent") or "",
        "target": value.get("target") or value.get("kind") or "",
        "reason": value.get("reason") or "",
        "at": value["answered_at"],
        "execution": value.get("execution_id") or "",
    }


async def news_of(
    documents: Documents, since: datetime, until: datetime, tools: Collection[str] | None
) -> list[dict[str, Any]]:  # fmt: skip
    """Servers and tools that were seen first in the time, and definitions that changed, the last first.

    Each is ``{"what", "name", "fields", "at"}``; ``what`` is ``server``, ``tool`` or ``definition``, and ``fields`` are
    what differs in a definition. With ``tools`` only what is said of these.
    """
    found: list[dict[str, Any]] = []
    async for document in every_document(documents, COLLECTION):
        if document.changed_at < since - SKEW:
            break
        found += news_in(document, since, until)
    told = [one for one in found if tools is None or one["name"] in tools]
    return sorted(told, key=lambda one: (one["at"], one["name"]), reverse=True)[:MOST]
