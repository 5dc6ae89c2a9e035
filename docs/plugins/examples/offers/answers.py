"""Card numbers stay out of a model's context: of what clients are answered, all but the last four digits are stars."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pml_hookspecs import Offer, Session, Task, hookimpl
from pml_kit.offers import ANSWERS

CARD = re.compile(r"\b(?:\d{4}[ -]?){3}(\d{4})\b")
MAY_SEE_CARDS = "billing"
"""Scope of those who are answered as the server did."""


def masked(value: Any) -> Any:
    if isinstance(value, str):
        return CARD.sub(r"**** **** **** \1", value)
    if isinstance(value, Mapping):
        return {name: masked(member) for name, member in value.items()}
    return [masked(item) for item in value] if isinstance(value, list) else value


async def mask(answer: Mapping[str, Any], _task: Task, session: Session) -> Mapping[str, Any]:
    changed: Mapping[str, Any] = answer if MAY_SEE_CARDS in session.scopes else masked(answer)
    return changed


@hookimpl
def pml_offers() -> Iterable[Offer[Any]]:
    return [Offer(ANSWERS, mask)]
