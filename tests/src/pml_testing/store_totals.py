"""What the contract of stores says of totals; part of :class:`pml_testing.store.StoreContract`."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args

import pytest

from pml_hookspecs import ExecutionQuery, ExecutionRecord, Scope, Status, replace, split_tool_id
from pml_hookspecs.store import Grouping, Total

from .fakes import EPOCH
from .records import ALICE, BOB, EVERYONE, NOBODY, execution, matches, single_queries, some_executions, written

if TYPE_CHECKING:
    from pml_hookspecs import Store

GROUPINGS: Sequence[Grouping] = get_args(Grouping)
RUNNING = ("pending", "running")
GOOD = ("ok", "simulated")
MICROSECOND = timedelta(microseconds=1)


def group_of(record: ExecutionRecord, by: Grouping) -> str:
    """Where ``record`` is counted."""
    tool = record.target if record.kind == "tool" else ""
    return {
        "agent": record.agent,
        "principal": record.principal,
        "tool": tool,
        "server": split_tool_id(tool)[0],
        "key": record.access_key,
        "day": record.started_at.date().isoformat(),
    }[by]


def total_of(group: str, records: Sequence[ExecutionRecord]) -> Total:
    """What ``records`` add up to."""
    times = [r.duration_ms for r in records if r.duration_ms is not None]
    return Total(
        group=group,
        executions=len(records),
        succeeded=sum(r.status in GOOD for r in records),
        failed=sum(r.status not in (*GOOD, *RUNNING) for r in records),
        running=sum(r.status in RUNNING for r in records),
        cost_usd=round(sum(r.cost_usd or 0 for r in records), 6),
        tokens_in=sum(r.tokens_in or 0 for r in records),
        tokens_out=sum(r.tokens_out or 0 for r in records),
        mean_duration_ms=round(sum(times) / len(times)) if times else None,
    )


def plain_totals(records: Sequence[ExecutionRecord], query: ExecutionQuery, by: Grouping) -> list[Total]:
    """What ``totals`` answers, worked out in the plainest way."""
    groups = defaultdict(list)
    for record in records:
        if matches(record, query):
            groups[group_of(record, by)].append(record)
    rows = [total_of(group, members) for group, members in groups.items()]
    if by == "day":
        return sorted(rows, key=lambda row: row.group)
    return sorted(rows, key=lambda row: (-row.cost_usd, -row.executions, row.group))


def nearly(rows: Sequence[Total]) -> list[Any]:
    """``rows`` in a form in which half a millisecond may be rounded either way, and money has six digits."""
    return [
        (r.group, r.executions, r.succeeded, r.failed, r.running, round(r.cost_usd, 6), r.tokens_in, r.tokens_out)
        for r in rows
    ]


def assert_totals(found: Sequence[Total], expected: Sequence[Total], asked: object) -> None:
    """The same rows in the same order."""
    assert nearly(found) == nearly(expected), asked
    for ours, theirs in zip(expected, found, strict=True):
        assert (ours.mean_duration_ms is None) == (theirs.mean_duration_ms is None), asked
        assert abs((ours.mean_duration_ms or 0) - (theirs.mean_duration_ms or 0)) <= 1, asked


async def last_began(store: Store, query: ExecutionQuery) -> dict[str, tuple[int, datetime | None]]:
    """By agent: how many there are, and when the last one began."""
    return {a.group: (a.executions, a.last_started_at) for a in await store.executions.activity(query)}


def plain_last(records: Sequence[ExecutionRecord], query: ExecutionQuery) -> dict[str, tuple[int, datetime | None]]:
    """The same, worked out in the plainest way."""
    times = defaultdict(list)
    for record in records:
        if matches(record, query):
            times[record.agent].append(record.started_at)
    return {agent: (len(began), max(began)) for agent, began in times.items()}


def over_days() -> list[ExecutionRecord]:
    """Records over some ten days, by several agents and tools, some of them at the turn of an hour or a day."""
    chance = random.Random(7)
    records = []
    for n in range(600):
        at = EPOCH + timedelta(seconds=chance.randrange(10 * 86_400), microseconds=chance.randrange(10**6))
        if n % 10 == 0:
            at = EPOCH + timedelta(hours=chance.randrange(240), microseconds=chance.choice((0, 0, 1, -1)))
        running = chance.random() < 0.1
        records.append(
            execution(
                n,
                started_at=at,
                agent=f"agent {chance.randrange(4)}",
                as_agent=n % 2 == 0,
                principal=chance.choice(("alice", "bob")),
                target=chance.choice(("files:read", "files:write", "web:get")),
                status=chance.choice(RUNNING) if running else chance.choice((Status.OK, Status.OK, Status.ERROR)),
                duration_ms=None if running else chance.randrange(5000),
                cost_usd=chance.choice((None, 0.01, 0.000001, 1.5)),
                tokens_in=chance.choice((None, 100)),
                intent=("feed the zebra", "count apples", "")[n % 7 % 3],
            )
        )
    return records


async def assert_sees_all(store: Store) -> None:
    """That each list and each total has all that was recorded before it, however far the writer is."""
    for n in range(400):
        store.executions.record(execution(n, status="running"))
        if n % 3:
            store.executions.record(execution(n - 1, intent="again"))
        page = await store.executions.find(ExecutionQuery(scope=EVERYONE, limit=3))
        assert page.total == n + 1
        assert [record.id for record in page.items] == [execution(n - i).id for i in range(min(3, n + 1))]
        done = await store.executions.find(ExecutionQuery(scope=EVERYONE, statuses=frozenset({"ok"}), limit=1))
        assert done.total == n - n // 3
        (total,) = await store.executions.totals(ExecutionQuery(scope=EVERYONE), "agent")
        assert (total.executions, total.succeeded) == (n + 1, n - n // 3)


async def assert_adds_up_as_hours_pass(store: Store, over: Callable[[int], Awaitable[None]]) -> None:
    """That sums are exact whatever of a day is over: what comes then, late or early, is replaced or deleted.

    Args:
        store: That is empty.
        over: Makes the hour with this number after ``EPOCH`` the last one that is over, for the store.
    """
    chance, there = random.Random(11), dict[str, ExecutionRecord]()
    for hour in range(-1, 250, 9):
        await over(hour)
        for new in chance.sample(over_days(), 50):
            at = new.started_at + timedelta(hours=chance.choice((0, 0, 1, -30)))
            record = replace(new, started_at=at, cost_usd=chance.choice((None, 2.5)), agent=f"agent {hour % 3}")
            there[record.id] = record
            await store.executions.put(record)
        if hour % 5 == 0:
            before = EPOCH + timedelta(hours=hour - 50)
            await store.executions.prune(before=before)
            there = {id_: r for id_, r in there.items() if r.started_at >= before or r.status in RUNNING}
        records = [*there.values()]
        now = EPOCH + timedelta(hours=hour + 1)
        edges = [None, now, now - timedelta(minutes=20), now - timedelta(days=1), now.replace(hour=0), EPOCH]
        for by in GROUPINGS:
            since, until = chance.choice(edges), chance.choice(edges)
            scope = chance.choice(
                (EVERYONE, ALICE, Scope(principals=frozenset({"bob"}), agents=frozenset({"agent 1"})))
            )
            query = ExecutionQuery(scope=scope, since=since, until=until)
            assert_totals(await store.executions.totals(query, by), plain_totals(records, query, by), (query, by))
            assert (await store.executions.find(query)).total == sum(matches(r, query) for r in records), query
            assert await last_began(store, query) == plain_last(records, query), query


@pytest.mark.anyio
class TotalsContract:
    """Tests of ``store.executions.totals``, and of sums over long times. ``store`` gives a store that is empty."""

    async def test_totals_add_up_what_is_in_each_group(self, store: Store) -> None:
        ends = [Status.OK, Status.SIMULATED, Status.ERROR, Status.DENIED]
        for n, status in enumerate(ends):
            members: dict[str, Any] = {"cost_usd": 0.1, "tokens_in": 1000, "tokens_out": n, "duration_ms": n * 10 + 1}
            store.executions.record(execution(n, status=status, access_key="k1", **members))
        store.executions.record(execution(10, status="pending", duration_ms=None))
        (other, key) = sorted(await store.executions.totals(ExecutionQuery(scope=ALICE), "key"), key=lambda t: t.group)
        assert (key.group, key.executions, key.succeeded, key.failed, key.running) == ("k1", 4, 2, 2, 0)
        assert (key.cost_usd, key.tokens_in, key.tokens_out) == (0.4, 4000, 6)
        assert (key.mean_duration_ms, type(key.mean_duration_ms)) == (16, int)
        assert (other.group, other.executions, other.running, other.mean_duration_ms) == ("", 1, 1, None)
        assert (other.cost_usd, other.tokens_in, other.tokens_out) == (0, 0, 0)

    @pytest.mark.parametrize("by", GROUPINGS)
    async def test_totals_agree_with_a_plain_filter(self, store: Store, by: Grouping) -> None:
        records = some_executions()
        await written(store, records)
        for query in single_queries():
            assert_totals(await store.executions.totals(query, by), plain_totals(records, query, by), query)

    async def test_scope_limits_totals(self, store: Store) -> None:
        for n in range(9):
            await store.executions.put(execution(n, principal="bob" if n % 3 else "alice", cost_usd=0.25))
        for by in GROUPINGS:
            for scope, expected in ((ALICE, 3), (BOB, 6), (EVERYONE, 9)):
                rows = await store.executions.totals(ExecutionQuery(scope=scope), by)
                assert len(rows) == (2 if by == "principal" and scope is EVERYONE else 1)
                assert sum(row.executions for row in rows) == expected
                assert sum(row.cost_usd for row in rows) == expected * 0.25
            assert not await store.executions.totals(ExecutionQuery(scope=NOBODY), by)

    async def test_the_dearest_comes_first_and_days_come_in_order(self, store: Store) -> None:
        for n, (target, cost) in enumerate((("a:x", None), ("a:y", 0.5), ("b:x", 0.2), ("b:y", None), ("b:x", 0.2))):
            at = EPOCH - timedelta(days=n % 2)
            await store.executions.put(execution(n, target=target, cost_usd=cost, started_at=at))
        await store.executions.put(execution(9, target="b:y"))
        query = ExecutionQuery(scope=ALICE, limit=1, cursor="ignored")
        assert [t.group for t in await store.executions.totals(query, "tool")] == ["a:y", "b:x", "b:y", "a:x"]
        assert [t.group for t in await store.executions.totals(query, "server")] == ["a", "b"]
        assert [t.group for t in await store.executions.totals(query, "day")] == ["2025-12-31", "2026-01-01"]

    async def test_sums_follow_what_is_replaced(self, store: Store) -> None:
        pending = execution(1, status="pending", duration_ms=None, agent="first")
        for record in (pending, execution(1, cost_usd=2.0, tokens_in=5), execution(1, cost_usd=3.0, agent="last")):
            await written(store, [record])
            query = ExecutionQuery(scope=ALICE)
            for by in GROUPINGS:
                assert_totals(await store.executions.totals(query, by), plain_totals([record], query, by), by)
            (row,) = await store.executions.activity(query)
            assert (row.group, row.executions, row.cost_usd) == (record.agent, 1, record.cost_usd or 0)
            for agent in ("first", "claude", "last"):
                page = await store.executions.find(ExecutionQuery(scope=ALICE, agent=agent))
                assert page.total == len(page.items) == (record.agent == agent)

    async def test_sums_and_totals_have_all_that_was_recorded_before(self, store: Store) -> None:
        """Written or not, new or in the place of what was there, with another agent or at another time."""
        chance, there = random.Random(9), dict[str, ExecutionRecord]()
        shared = Scope(principals=frozenset({"bob"}), agents=frozenset({"agent 1"}))
        for n, new in enumerate(chance.choices(over_days()[:80], k=400)):
            at = new.started_at + timedelta(hours=chance.randrange(40) if n % 5 == 0 else 0)
            ended: Any = chance.choice((*RUNNING, *GOOD, Status.ERROR))
            cost_usd = chance.choice((None, 2.5))
            agent = f"agent {chance.randrange(4)}"
            intent = chance.choice(("", "zebra", "zebra and apple"))
            record = replace(
                new, started_at=at, status=ended, cost_usd=cost_usd, agent=agent, tokens_in=n, intent=intent
            )
            there[record.id] = record
            store.executions.record(record)
            if n % 4:
                continue
            edges = [None, *(r.started_at for r in chance.choices([*there.values()], k=3))]
            query = ExecutionQuery(
                scope=chance.choice((EVERYONE, ALICE, shared)),
                since=chance.choice(edges),
                until=chance.choice(edges),
                agent=chance.choice((None, None, "agent 2")),
                statuses=chance.choice((None, None, frozenset(RUNNING), frozenset({"ok"}))),
                text=chance.choice((None, None, "apple", "zeb")),
            )
            by = GROUPINGS[n // 4 % len(GROUPINGS)]
            records = [*there.values()]
            assert_totals(await store.executions.totals(query, by), plain_totals(records, query, by), (query, by))
            assert await last_began(store, query) == plain_last(records, query), query
            assert (await store.executions.find(query)).total == sum(matches(r, query) for r in records), query

    async def test_numbers_too_large_to_add_up_lose_nothing(self, store: Store) -> None:
        """What an agent tells may be any number. A store may write down less; it adds up what it has written."""
        absurd: dict[str, Any] = dict.fromkeys(("tokens_in", "tokens_out", "context_used"), 2**63 - 1)
        for n in range(3):
            store.executions.record(execution(n, **absurd, context_max=2**70, duration_ms=2**62, cost_usd=2.0**60))
        await store.executions.put(execution(3, tokens_in=5, tokens_out=7, duration_ms=9, cost_usd=0.5))
        query = ExecutionQuery(scope=ALICE)
        stored = list((await store.executions.find(query)).items)
        assert [record.id for record in stored] == [execution(n).id for n in (3, 2, 1, 0)]
        assert (stored[0].tokens_in, stored[0].cost_usd) == (5, 0.5)
        for record in stored[1:]:
            assert min(record.tokens_in or 0, record.tokens_out or 0, record.duration_ms or 0) >= 10**12
            assert (record.cost_usd or 0) >= 10**9
        for by in GROUPINGS:
            found = await store.executions.totals(query, by)
            assert_totals(found, plain_totals(stored, query, by), by)
            for total in found:
                assert {type(total.tokens_in), type(total.tokens_out), type(total.mean_duration_ms)} == {int}
        (activity,) = await store.executions.activity(query)
        assert activity.executions == 4
        for n in range(3):
            await store.executions.put(execution(n, tokens_in=1))
        (total,) = await store.executions.totals(query, "agent")
        assert (total.tokens_in, total.tokens_out, total.cost_usd) == (8, 7, 0.5)

    async def test_what_moves_to_another_time_is_counted_there(self, store: Store) -> None:
        """Also of two that the same agent began, the later one of which moves away."""
        store.executions.record(execution(0, started_at=EPOCH))
        for days in (3, 0, 5, 2):
            at = EPOCH + timedelta(days=days, minutes=1)
            store.executions.record(execution(1, started_at=at))
            query = ExecutionQuery(scope=ALICE, since=EPOCH)
            (row,) = await store.executions.activity(query)
            assert (row.executions, row.last_started_at) == (2, at)
            totals = await store.executions.totals(query, "day")
            assert_totals(totals, plain_totals([execution(0), execution(1, started_at=at)], query, "day"), days)

    async def test_numbers_are_exact_whatever_the_time_asked_for(self, store: Store) -> None:
        records, chance = over_days(), random.Random(8)
        await written(store, records)
        scopes = (EVERYONE, ALICE, Scope(principals=frozenset({"bob"}), agents=frozenset({"agent 1"})))
        filters: tuple[dict[str, Any], ...] = (
            {},
            {"agent": "agent 2"},
            {"statuses": frozenset(RUNNING)},
            {"target": "web:*"},
        )
        edges = [None, *(r.started_at for r in records[:40]), *(EPOCH + timedelta(hours=h) for h in range(0, 240, 7))]
        for n in range(120):
            since, until = chance.choice(edges), chance.choice(edges)
            query = ExecutionQuery(scope=scopes[n % 3], since=since, until=until, **filters[n % 4])
            there = [record for record in records if matches(record, query)]
            assert (await store.executions.find(query)).total == len(there), query
            by = GROUPINGS[n % 5]
            assert_totals(await store.executions.totals(query, by), plain_totals(records, query, by), (query, by))
            assert await last_began(store, query) == plain_last(records, query), query
