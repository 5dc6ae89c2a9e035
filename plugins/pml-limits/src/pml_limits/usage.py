"""How much of each limit is used, as ``pml limits show`` tells it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import floor, inf
from typing import TYPE_CHECKING, Any

from pml_kit.shared.window import Windows

from . import budgets, slots
from .rates import WINDOWS
from .settings import parse_rate

if TYPE_CHECKING:
    from pml_hookspecs import Documents, Services

    from .settings import Rule, Settings

COLLECTION = "limits.use"
"""What each gateway that counts by itself tells of it: another process cannot look."""
PAGE = 1000


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """How much of one limit is used, by one counter."""

    rule: str
    whose: Mapping[str, str]
    what: str
    """``rate``, ``concurrency`` or ``budget``."""
    used: float
    allowed: float
    gateway: str
    """Which gateway counts by itself, as ``host:process id``; ``""`` when all count together."""

    def plain(self) -> dict[str, Any]:
        """The use as JSON."""
        return {
            "rule": self.rule,
            "for": dict(self.whose),
            "what": self.what,
            "used": self.used,
            "allowed": self.allowed,
            "gateway": self.gateway,
        }


async def all_uses(services: Services, settings: Settings) -> list[LimitUsage]:
    """The use of every counter that is not at zero, by rule."""
    found = [use async for use in _stored(services.store.documents, settings.rules)]
    found = [use for use in found if use.used > 0]
    return sorted(found, key=lambda use: (use.rule, use.what, sorted(use.whose.items()), use.gateway))


async def _stored(documents: Documents, rules: Mapping[str, Rule]) -> AsyncIterator[LimitUsage]:
    for value in await _values(documents, WINDOWS):
        yield _use(value | {"what": "rate"}, rules)
    for value in await _values(documents, slots.COLLECTION, newer_than_s=slots.LEASE_S):
        yield _use(value | {"what": "concurrency", "used": len(value.get("holders", ()))}, rules)
    today = datetime.now(UTC).date().isoformat()
    for value in await _values(documents, budgets.COLLECTION):
        if value["day"] == today:
            yield _use(value | {"what": "budget", "used": value["micro_usd"] / budgets.MICROS}, rules)
    for value in await _values(documents, COLLECTION):
        for told in value["told"]:
            yield _use(told, rules, value["gateway"])


async def _values(documents: Documents, collection: str, newer_than_s: float = inf) -> list[dict[str, Any]]:
    """Those that were changed not longer ago, by the clock of this machine."""
    values: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await documents.find(collection, limit=PAGE, cursor=cursor)
        now = datetime.now(UTC)
        values += [dict(one.value) for one in page.items if (now - one.changed_at).total_seconds() < newer_than_s]
        cursor = page.cursor
        if cursor is None:
            return values


def _use(value: Mapping[str, Any], rules: Mapping[str, Rule], gateway: str = "") -> LimitUsage:
    """What a document says; nothing used of a rule that there is no more."""
    name, what, used = value.get("rule", ""), value["what"], value.get("used", 0)
    rule = rules.get(name)
    allowed: float = 0
    if rule is not None and what == "rate" and rule.rate:
        allowed, expiry_s = parse_rate(rule.rate)
        used = floor(Windows().read(name, value, expiry_s).used())
    elif rule is not None:
        allowed = rule.concurrency if what == "concurrency" else rule.daily_usd
    return LimitUsage(name, value.get("whose", {}), what, used if allowed else 0, allowed, gateway)
