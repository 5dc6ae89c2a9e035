"""``[plugins.limits]``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from pml_hookspecs import setting

Kind = Literal["tool", "code", "capability", "workflow", "request"]
Part = Literal["principal", "agent", "tool", "server"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One of ``rules``: which tasks, and how much of them."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    principal: str = setting("*", "Whose tasks, by pattern: the principal that a key stands for.")
    agent: str = setting(
        "*", "Whose tasks, by pattern: the configured agent that a key stands for, none of a person's."
    )
    tool: str = setting("*", "Which tools, by pattern of their ids, such as 'mail:send_*'.")
    server: str = setting("*", "Tools of which servers, by pattern; the gateway's own are of 'pml'.")
    kind: Kind = setting(
        "tool",
        "Which tasks: calls of tools and all else that servers are asked; with request only what is no call of a tool "
        "(resources, prompts and such); or runs of code, capabilities or workflows.",
    )
    per: tuple[Part, ...] = setting((), "Counted apart for each of these; all together if empty.")
    rate: str = setting("", "Most tasks in a sliding window: '100/minute', '10 per 30 seconds'. Empty: any number.")
    concurrency: int = setting(0, "Most tasks under way at once; 0 for any number.")
    queue_s: float = setting(0.0, "How long a task waits for another to end before it is refused [s].")
    time_out_s: float = setting(0.0, "Longest time of one task; 0 for any [s].")
    daily_usd: float = setting(0.0, "Most that all tasks of a day (UTC) may cost, once it is known; 0 for any [USD].")

    def __post_init__(self) -> None:
        """Refuse what types cannot.

        Raises:
            ValueError: Names every mistake.
        """
        problems = list(_problems(self))
        if problems:
            raise ValueError("; ".join(problems))


def _problems(rule: Rule) -> Iterator[str]:
    numbers = {name: getattr(rule, name) for name in ("concurrency", "queue_s", "time_out_s", "daily_usd")}
    yield from (f"{name} is {value}; it must be 0 or more" for name, value in numbers.items() if not value >= 0)
    yield from (f"{name} must be a finite number" for name, value in numbers.items() if value == float("inf"))
    if not (rule.rate or any(value > 0 for name, value in numbers.items() if name != "queue_s")):
        yield "it limits nothing; give rate, concurrency, time_out_s or daily_usd"
    if rule.queue_s and not rule.concurrency:
        yield "queue_s means nothing without concurrency"
    if rule.kind not in ("tool", "request") and (
        rule.tool != "*" or rule.server != "*" or {"tool", "server"} & set(rule.per)
    ):
        yield f"tool and server mean nothing for kind = {rule.kind!r}"
    yield from (f"{name} is empty; '*' stands for all" for name in PATTERNS if not getattr(rule, name))
    if len(set(rule.per)) < len(rule.per):
        yield "per names something twice"
    if rule.rate:
        try:
            parse_rate(rule.rate)
        except ValueError as exc:
            yield str(exc)


PATTERNS = ("principal", "agent", "tool", "server")


FLAGS = re.IGNORECASE | re.ASCII
RATE = re.compile(r"\s*(\d{1,18})\s*(?:/|per)\s*(\d{1,6})?\s*(second|minute|hour|day|month|year)s?\s*", FLAGS)
UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "month": 30 * 86_400, "year": 360 * 86_400}


def parse_rate(rate: str) -> tuple[int, int]:
    """How many tasks, and in how long a window [s].

    Raises:
        ValueError: It is not understood, is more than one, or lets nothing pass.
    """
    found = [RATE.fullmatch(one) for one in re.split("[,;|]", rate)]
    if None in found:
        raise ValueError(f"rate {rate!r} is not understood; write it as '100/minute' or '10 per 30 seconds'")
    if len(found) > 1:
        raise ValueError(f"rate {rate!r} is more than one; write a rule for each")
    amount, count, unit = RATE.fullmatch(rate).groups("1")  # type: ignore[union-attr] # it has matched
    if not (int(amount) and int(count)):
        raise ValueError(f"rate {rate!r} lets nothing pass; the numbers must be 1 or more")
    return int(amount), int(count) * UNITS_S[unit.lower()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is limited."""

    rules: dict[str, Rule] = setting(dict, "Limits by name; a task keeps to all that fit it.", project="set")
    shared: bool = setting(
        default=False,
        description="Count in the store, together with all gateways that use it, instead of in this process.",
    )
