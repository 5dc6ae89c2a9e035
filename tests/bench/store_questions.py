"""What the benchmark of stores asks, and of what history."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from pml_hookspecs import ExecutionId, ExecutionQuery, ExecutionRecord, Failure, RawObject, Scope, Status, encode

PRINCIPALS = [f"user{n}" for n in range(8)]
AGENTS = [f"agent-{n:02}" for n in range(50)]
TOOLS = [f"server{n % 8}:tool_{n:02}" for n in range(40)]
RARE = "rare-person"
"""Somebody who did one thing in twenty thousand."""
GOALS = {"list": 50, "summary": 100, "fleet": 100, "text": 100, "other": 100}
"""Greatest p95 of each kind of question [ms]."""

_WORDS = random.Random(1)
VOCABULARY = [
    "".join(_WORDS.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(_WORDS.randint(3, 9))) for _ in range(20_000)
]
_WEIGHTS = list(accumulate(1 / (n + 5) for n in range(len(VOCABULARY))))
_CHANCE = random.Random(2)
_SENTENCES = [" ".join(_CHANCE.choices(VOCABULARY, cum_weights=_WEIGHTS, k=12)) for _ in range(20_000)]


def record(n: int, started_at: datetime) -> ExecutionRecord:
    """The ``n``-th of the history: always the same, whoever asks."""
    who = n * 7919 % 50
    failed = n % 20 == 3
    text = f"number{n} {_SENTENCES[n * 31 % 20_000]}"
    return ExecutionRecord(
        id=ExecutionId(f"{n:08x}-0000-7000-8000-{n:012x}"),
        parent=ExecutionId(f"{n - n % 3:08x}-0000-7000-8000-{n - n % 3:012x}") if n % 3 else None,
        kind="tool",
        target=TOOLS[(who * 3 + n * 104_729 % 6) % 40],
        principal=RARE if n % 20_000 == 0 else PRINCIPALS[who % 8],
        agent=AGENTS[who],
        as_agent=who % 2 == 0,
        trigger=("mcp", "mcp", "mcp", "schedule")[n % 4],
        intent=_SENTENCES[n * 17 % 20_000][:60],
        status=Status.ERROR if failed else Status.OK,
        started_at=started_at,
        duration_ms=n % 3000,
        request=RawObject(b'{"path":"/srv/data/report.csv","count":%d}' % n),
        response=None if failed else RawObject(encode({"content": [{"type": "text", "text": text}]})),
        failure=Failure("tool.failed", f"It failed: {text[:60]}") if failed else None,
        cost_usd=0.0001 * (n % 50) if n % 2 else None,
        access_key=f"key-{who % 13}",
        tokens_in=n % 900,
        tokens_out=n % 300,
    )


@dataclass(frozen=True)
class Question:
    """Something to ask a store."""

    name: str
    kind: str
    ask: Callable[[Any], Awaitable[Any]]


EVERYONE = Scope(principals=None)
ONE = Scope(principals=frozenset({"user3"}))
SHARED = Scope(principals=frozenset({"user3"}), agents=frozenset(AGENTS[:10]))


def questions(now: datetime) -> list[Question]:
    """All of them."""
    day, week = now - timedelta(hours=24), now - timedelta(hours=168)

    def find(name: str, kind: str, **asked: Any) -> Question:
        query = ExecutionQuery(**{"scope": EVERYONE, **asked})
        return Question(name, kind, lambda store: store.executions.find(query))

    def activity(name: str, kind: str, **asked: Any) -> Question:
        query = ExecutionQuery(**{"scope": EVERYONE, **asked})
        return Question(name, kind, lambda store: store.executions.activity(query))

    def totals(name: str, kind: str, by: Any, **asked: Any) -> Question:
        query = ExecutionQuery(**{"scope": EVERYONE, **asked})
        return Question(name, kind, lambda store: store.executions.totals(query, by))

    failed = frozenset(status.value for status in Status if not status.good)
    found = [
        # What the way there and back takes: nothing is quicker, whatever the store does.
        Question("an id that nobody has", "other", lambda store: store.executions.get(ExecutionId("nobody"), EVERYONE)),
        find("list, 24 h", "list", since=day, top_level=True),
        find("list, 24 h, one user", "list", since=day, scope=ONE, top_level=True),
        find("list, 24 h, a user and 10 agents", "list", since=day, scope=SHARED, top_level=True),
        find("list, 24 h, one agent", "list", since=day, agent=AGENTS[3]),
        find("list, 24 h, failed", "list", since=day, statuses=failed),
        find("list, 24 h, some ways to fail", "list", since=day, statuses=frozenset({"error", "denied", "timed_out"})),
        find("list, 24 h, running", "list", since=day, statuses=frozenset({"running", "pending"})),
        find("list, 168 h, limit 100", "list", since=week, limit=100),
        find("list, 168 h, a user and 10 agents", "list", since=week, scope=SHARED),
        find("list, ever, of somebody rare", "list", scope=Scope(principals=frozenset({RARE}))),
        find("list, ever", "list"),
        find("list, 168 h, one server", "other", since=week, target="server1:*"),
        activity("summary of the fleet, 24 h", "summary", since=day, top_level=True),
        activity("summary of a user and 10 agents, 24 h", "summary", since=day, scope=SHARED),
        activity("summary of one agent, 24 h", "summary", since=day, agent=AGENTS[3]),
        activity("summary of the fleet, 168 h", "fleet", since=week, top_level=True),
        activity("summary of a user and 10 agents, 168 h", "fleet", since=week, scope=SHARED),
    ]
    found += [totals(f"totals by {by}, 24 h", "summary", by, since=day) for by in ("agent", "tool", "key", "day")]
    found += [totals(f"totals by {by}, 168 h", "fleet", by, since=week) for by in ("agent", "day")]
    found += [totals(f"totals by {by}, 168 h", "other", by, since=week) for by in ("tool", "server", "key")]
    for name, text in (
        ("rare word", "number600000"),
        ("two words", f"{VOCABULARY[40]} {VOCABULARY[90]}"),
        ("a frequent word", VOCABULARY[3]),
        ("a beginning of two letters", VOCABULARY[7][:2]),
        ("a word of every row", "report"),
    ):
        found += [
            find(f"text, 168 h: {name}", "text", since=week, text=text),
            find(f"text, 168 h, a user and 10 agents: {name}", "text", since=week, scope=SHARED, text=text),
        ]
    found.append(find("text, ever: a frequent word", "text", text=VOCABULARY[3]))
    return found
