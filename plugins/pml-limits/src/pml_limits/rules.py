"""Which rules hold for a task, and under which key each counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from pml_hookspecs import CapabilityRun, CodeRun, ServerRequest, ToolCall, Workflow, split_tool_id

from .settings import parse_rate

if TYPE_CHECKING:
    from pml_hookspecs import Session, Task

    from .settings import Rule

MOST_REMEMBERED = 4096
"""Combinations of tool, principal and agent whose rules are remembered."""
LONGEST_KEY = 256
"""Characters; of a longer one the digest is used."""
KINDS: Mapping[type[Any], str] = {
    ToolCall: "tool",
    CodeRun: "code",
    CapabilityRun: "capability",
    Workflow: "workflow",
    ServerRequest: "request",
}
COUNTED_AS = {"request": ("request", "tool")}
"""Kinds of rules that hold for a kind of task: a rule for tools holds for whatever else servers are asked."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A rule as it holds for one task."""

    name: str
    rule: Rule
    whose: Mapping[str, str]
    """What it counts apart, such as ``{"principal": "alice"}``; empty for all together."""
    key: str
    """The key of the counter."""

    @property
    def description(self) -> str:
        """Whose it is, in words; ``""`` for all together."""
        return " and ".join(f"{part} {value!r}" for part, value in self.whose.items())


class RateLimit(NamedTuple):
    """A rate as it holds for one task."""

    limit: Limit
    amount: int
    expiry_s: int
    """How long the window is [s]."""


@dataclass(frozen=True, slots=True)
class Limits:
    """All limits that hold for one task."""

    rates: tuple[RateLimit, ...]
    slots: tuple[Limit, ...]
    budgets: tuple[Limit, ...]
    time_out: Limit | None
    """The shortest."""


class Rules:
    """All rules."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._rules = [(name, rule, parse_rate(rule.rate) if rule.rate else None) for name, rule in rules.items()]
        self._known: dict[tuple[Any, ...], Limits | None] = {}

    def of(self, task: Task, session: Session) -> Limits | None:
        """None when no rule fits."""
        kind = type(task)
        name = task.tool if kind is ToolCall else task.name if kind is ServerRequest else ""  # type: ignore[union-attr] # mypy takes no type() for a proof
        place = (kind, name, session.principal, session.agent)
        try:
            return self._known[place]
        except KeyError:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            found = self._known[place] = self._find(task, session)
            return found

    def seen(self) -> Iterator[Limits]:
        """What held for the tasks that came by."""
        return (limits for limits in list(self._known.values()) if limits is not None)

    def _find(self, task: Task, session: Session) -> Limits | None:
        kind, about = KINDS.get(type(task), ""), about_task(task, session)
        # Clients choose URIs: each would have a counter of its own.
        whose = {**about, "tool": f"{task.server}:@{task.method}"} if isinstance(task, ServerRequest) else about
        found = [
            (limit_of(name, rule, {part: whose[part] for part in rule.per}), rate)
            for name, rule, rate in self._rules
            if rule.kind in COUNTED_AS.get(kind, (kind,))
            and all(fnmatchcase(about[p], getattr(rule, p)) for p in about)
        ]
        if not found:
            return None
        timed = [limit for limit, _ in found if limit.rule.time_out_s]
        return Limits(
            rates=tuple(RateLimit(limit, *rate) for limit, rate in found if rate is not None),
            slots=tuple(limit for limit, _ in found if limit.rule.concurrency),
            budgets=tuple(limit for limit, _ in found if limit.rule.daily_usd),
            time_out=min(timed, key=lambda limit: limit.rule.time_out_s, default=None),
        )


def about_task(task: Task, session: Session) -> dict[str, str]:
    """What rules look at."""
    about = {"principal": session.principal, "agent": session.agent}
    if isinstance(task, ToolCall):
        about |= {"tool": task.tool, "server": split_tool_id(task.tool)[0]}
    elif isinstance(task, ServerRequest):
        about |= {"tool": task.name, "server": task.server}
    return about


def limit_of(name: str, rule: Rule, whose: Mapping[str, str]) -> Limit:
    """``rule`` as it holds for ``whose``."""
    key = "\n".join((name, *(whose[part] for part in sorted(whose))))
    if len(key) > LONGEST_KEY:
        key = f"{name[:64]}\n{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"
    return Limit(name, rule, whose, key)
