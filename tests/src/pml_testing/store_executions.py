"""What the contract of stores says of executions; part of :class:`pml_testing.store.StoreContract`."""

from __future__ import annotations

import asyncio
import statistics
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pml_hookspecs import ExecutionQuery, Failure, Page, RawObject, Scope, Status, encode, replace

from .fakes import EPOCH
from .records import (
    ALICE,
    BOB,
    EVERYONE,
    NOBODY,
    assert_same,
    ended,
    execution,
    matches,
    some_executions,
    some_queries,
    written,
)

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionId, ExecutionRecord, Store

DEADLINE_S = 90.0
"""Longest that a test waits for anything."""


async def every_page(store: Store, query: ExecutionQuery) -> list[Page[ExecutionRecord]]:
    """All pages of ``query``."""
    pages = [await store.executions.find(query)]
    while pages[-1].cursor is not None:
        pages.append(await store.executions.find(replace(query, cursor=pages[-1].cursor)))
    return pages


@pytest.mark.anyio
class ExecutionsContract:
    """Tests of ``store.executions``. The fixture ``store`` gives a store that is up and empty."""

    @pytest.mark.parametrize(
        "members",
        [
            {},
            {"status": "pending", "duration_ms": None},
            {"status": "running", "duration_ms": None, "kind": "workflow", "target": ""},
            {"parent": execution(1).id, "kind": "code", "target": "python", "agent": "", "trigger": "schedule"},
            {"request": {"path": "/tmp", "n": [1, 2.5, None, True, {"a": "b"}]}, "dry_run": True, "cost_usd": 0.001234},
            {"endpoint": "cursor größe", "mode": "search"},
            {"as_agent": True, "access_key": "key-größe", "schedule": "nightly"},
            {"tokens_in": 0, "tokens_out": 3_000_000_000, "context_used": 12, "context_max": 200_000},
            {"tool_calls": ("files:read", "web:get", "files:read"), "trigger": "agent", "cost_usd": 0.0},
            {
                "failure": Failure("tool.failed", "It broke; mend it.", True, {"rpc": {"code": -1}}),
                "status": Status.ERROR,
            },
            {"started_at": EPOCH + timedelta(days=9000, microseconds=999_999), "trigger": "manual", "duration_ms": 0},
        ],
        ids=lambda members: "+".join(members) or "defaults",
    )
    async def test_every_field_of_a_record_comes_back(self, store: Store, members: dict[str, Any]) -> None:
        record = execution(2, intent="read it", **members)
        await store.executions.put(record)
        assert_same(await store.executions.get(record.id, EVERYONE), record)
        assert_same((await store.executions.find(ExecutionQuery(scope=EVERYONE))).items[0], record)

    async def test_every_status_comes_back(self, store: Store) -> None:
        for n, status in enumerate(Status):
            await store.executions.put(execution(n, status=status))
            assert_same(await store.executions.get(execution(n).id, EVERYONE), execution(n, status=status))

    async def test_any_json_comes_back_as_a_response(self, store: Store) -> None:
        nested = {"content": {"deep": RawObject(b'{"n":1}')}}
        for n, response in enumerate((None, True, 0, 2.5, "", "text", [], [[1], {"a": None}], {}, nested)):
            await store.executions.put(execution(n, response=response))
            assert_same(await store.executions.get(execution(n).id, EVERYONE), execution(n, response=response))

    async def test_raw_objects_come_back_member_by_member(self, store: Store) -> None:
        raw = RawObject(
            b'{"z":1e400,"a":123456789012345678901234567890,"nested":{"b":[],"a":NaN},"unknown":"\xc3\xa4"}'
        )
        record = execution(1, request=raw, response=raw)
        await store.executions.put(record)
        assert_same(await store.executions.get(record.id, EVERYONE), record)

    async def test_large_requests_and_responses_come_back(self, store: Store) -> None:
        for size in (4_000, 5_000, 500_000):
            text = ("".join(chr(32 + n * n % 90) for n in range(997)) * (size // 997 + 1))[:size]
            record = execution(size, request={"text": text}, response=RawObject(encode({"text": text[::-1]})))
            await store.executions.put(record)
            assert_same(await store.executions.get(record.id, EVERYONE), record)
            assert_same((await store.executions.find(ExecutionQuery(scope=EVERYONE))).items[0], record)

    async def test_text_in_any_script_comes_back(self, store: Store) -> None:
        text = 'Größe 日本語 🎈 العربية "quoted" \\ \n\t\x00 %_\' --'
        record = execution(1, **dict.fromkeys(("target", "principal", "agent", "intent"), text), response=text)
        await store.executions.put(record)
        assert_same(await store.executions.get(record.id, Scope(principals=frozenset({text}))), record)
        assert (await store.executions.find(ExecutionQuery(scope=EVERYONE, agent=text))).total == 1

    async def test_text_without_a_utf8_form_does_not_hide_an_execution(self, store: Store) -> None:
        store.executions.record(execution(1, intent="half \ud83c a pair", request={"a": "\udc00"}))
        assert await store.executions.get(execution(1).id, ALICE) is not None

    async def test_what_is_recorded_is_read_at_once(self, store: Store) -> None:
        for n in range(0, 60, 3):
            store.executions.record(execution(n))
            assert await store.executions.get(execution(n).id, ALICE) is not None
            store.executions.record(execution(n + 1))
            assert (await store.executions.find(ExecutionQuery(scope=ALICE))).total == n + 2
            store.executions.record(execution(n + 2))
            (row,) = await store.executions.activity(ExecutionQuery(scope=ALICE))
            assert row.executions == n + 3

    async def test_a_record_replaces_an_earlier_one_with_its_id(self, store: Store) -> None:
        pending = execution(1, status="pending", duration_ms=None, response="x" * 10_000, request={"a": "y" * 10_000})
        final = execution(1, response={"content": []}, tool_calls=("files:read",))
        store.executions.record(pending)
        store.executions.record(final)
        assert_same(await store.executions.get(final.id, ALICE), final)
        await store.executions.put(pending)
        assert_same(await store.executions.get(final.id, ALICE), pending)
        store.executions.record(final)
        assert_same(await store.executions.get(final.id, ALICE), final)
        assert (await store.executions.find(ExecutionQuery(scope=ALICE))).total == 1

    async def test_recording_costs_the_caller_little(self, store: Store) -> None:
        taken = []
        for n in range(500):
            record = execution(n, response=RawObject(b'{"content":[]}'))
            start = time.perf_counter()
            store.executions.record(record)
            taken.append(time.perf_counter() - start)
        assert statistics.median(taken) <= 100e-6

    async def test_a_record_that_is_not_json_is_lost_alone(self, store: Store) -> None:
        store.executions.record(execution(1))
        store.executions.record(execution(2, request={"callable": print}))
        store.executions.record(execution(3))
        found = await store.executions.find(ExecutionQuery(scope=EVERYONE))
        assert {r.id for r in found.items} >= {execution(1).id, execution(3).id}

    async def test_fifty_writers_lose_nothing(self, store: Store) -> None:
        async def write(writer: int) -> None:
            for n in range(writer * 10, writer * 10 + 10, 2):
                store.executions.record(execution(n))
                await store.executions.put(execution(n + 1))

        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*map(write, range(50)))
        pages = await every_page(store, ExecutionQuery(scope=EVERYONE, limit=100))
        assert [r.id for page in pages for r in page.items] == [execution(n).id for n in reversed(range(500))]

    async def test_a_transcript_is_read_only_when_asked_for(self, store: Store) -> None:
        transcript = [{"role": "user", "content": f"größe {n} " + "x" * 900, "n": [n, None]} for n in range(500)]
        record = execution(1, transcript=transcript)
        await store.executions.put(record)
        assert_same(await store.executions.get(record.id, ALICE, transcript=True), record)
        assert_same(await store.executions.get(record.id, ALICE), replace(record, transcript=None))
        assert_same(
            (await store.executions.find(ExecutionQuery(scope=ALICE))).items[0], replace(record, transcript=None)
        )
        assert await store.executions.get(record.id, BOB, transcript=True) is None

    async def test_a_transcript_goes_with_the_record_that_is_replaced(self, store: Store) -> None:
        first, second = ({"said": "first"},), ({"said": "second"},)
        for transcript in (None, first, second, None):
            store.executions.record(execution(1, transcript=transcript))
            found = await store.executions.get(execution(1).id, ALICE, transcript=True)
            assert_same(found, execution(1, transcript=transcript))

    async def test_shared_agents_are_seen_besides(self, store: Store) -> None:
        await store.executions.put(execution(1))
        await store.executions.put(execution(2, principal="bob", agent="bot", as_agent=True))
        await store.executions.put(execution(3, principal="bob", agent="other", as_agent=True))
        for principals, agents, expected in (
            ({"alice"}, set(), {1}),
            ({"alice"}, {"bot"}, {1, 2}),
            (set(), {"bot", "other"}, {2, 3}),
            (set(), {"claude"}, set()),
            (None, {"bot"}, {1, 2, 3}),
        ):
            scope = Scope(principals=None if principals is None else frozenset(principals), agents=frozenset(agents))
            await self._sees_exactly(store, scope, {execution(n).id for n in expected})

    async def test_a_name_that_a_client_gave_itself_is_no_shared_agent(self, store: Store) -> None:
        await store.executions.put(execution(1, principal="bob", agent="bot"))
        await self._sees_exactly(store, Scope(principals=frozenset({"alice"}), agents=frozenset({"bot"})), set())

    @staticmethod
    async def _sees_exactly(store: Store, scope: Scope, ids: set[ExecutionId]) -> None:
        await store.traces.append([ended(n, execution(n).id) for n in (1, 2, 3)])
        query = ExecutionQuery(scope=scope)
        page = await store.executions.find(query)
        assert ({r.id for r in page.items}, page.total) == (ids, len(ids))
        assert sum(row.executions for row in await store.executions.activity(query)) == len(ids)
        assert sum(row.executions for row in await store.executions.totals(query, "day")) == len(ids)
        for n in (1, 2, 3):
            assert (await store.executions.get(execution(n).id, scope) is not None) == (execution(n).id in ids)
            assert bool(await store.traces.of(execution(n).id, scope)) == (execution(n).id in ids)

    async def test_servers_are_told_apart_to_the_letter(self, store: Store) -> None:
        targets = ("a_b:x", "axb:x", "A_B:x", "a_b:x:y", "a_bc:x", "a_b", "%:x", ":x")
        for n, target in enumerate(targets):
            await store.executions.put(execution(n, target=target))
        for target, expected in (
            ("a_b:*", {"a_b:x", "a_b:x:y"}),
            ("a_b:x", {"a_b:x"}),
            ("%:*", {"%:x"}),
            ("A_B:*", {"A_B:x"}),
            ("*", set()),
        ):
            page = await store.executions.find(ExecutionQuery(scope=ALICE, target=target))
            assert ({r.target for r in page.items}, page.total) == (expected, len(expected)), target

    async def test_until_is_exclusive(self, store: Store) -> None:
        await store.executions.put(execution(5))
        at = execution(5).started_at
        assert (await store.executions.find(ExecutionQuery(scope=ALICE, until=at))).total == 0
        later = at + timedelta(microseconds=1)
        assert (await store.executions.find(ExecutionQuery(scope=ALICE, until=later))).total == 1

    async def test_get_does_not_tell_out_of_scope_from_unknown(self, store: Store) -> None:
        await store.executions.put(execution(1))
        assert await store.executions.get(execution(1).id, ALICE) is not None
        assert await store.executions.get(execution(1).id, BOB) is None
        assert await store.executions.get(execution(1).id, NOBODY) is None
        assert await store.executions.get(execution(2).id, EVERYONE) is None

    async def test_scope_limits_items_and_totals(self, store: Store) -> None:
        for n in range(9):
            await store.executions.put(execution(n, principal="bob" if n % 3 else "alice"))
        for scope, expected in ((ALICE, 3), (BOB, 6), (NOBODY, 0), (EVERYONE, 9)):
            page = await store.executions.find(ExecutionQuery(scope=scope, limit=2))
            assert page.total == expected
            assert all(matches(r, ExecutionQuery(scope=scope)) for r in page.items)

    async def test_scope_limits_summaries(self, store: Store) -> None:
        for n in range(9):
            await store.executions.put(execution(n, principal="bob" if n % 3 else "alice", cost_usd=0.25))
        for scope, expected in ((ALICE, 3), (BOB, 6), (EVERYONE, 9)):
            (row,) = await store.executions.activity(ExecutionQuery(scope=scope))
            assert (row.executions, row.cost_usd) == (expected, expected * 0.25)
        assert not await store.executions.activity(ExecutionQuery(scope=NOBODY))

    async def test_find_agrees_with_a_plain_filter(self, store: Store) -> None:
        records = some_executions()
        await written(store, records)
        newest_first = sorted(records, key=lambda r: (r.started_at, r.id), reverse=True)
        for query in some_queries():
            page = await store.executions.find(query)
            assert [r.id for r in page.items] == [r.id for r in newest_first if matches(r, query)], query
            assert page.total == len(page.items), query

    async def test_since_is_inclusive(self, store: Store) -> None:
        await store.executions.put(execution(5))
        at = execution(5).started_at
        assert (await store.executions.find(ExecutionQuery(scope=ALICE, since=at))).total == 1
        later = at + timedelta(microseconds=1)
        assert (await store.executions.find(ExecutionQuery(scope=ALICE, since=later))).total == 0

    async def test_a_limit_out_of_range_is_refused(self, store: Store) -> None:
        for limit in (-1, 0, 101):
            with pytest.raises(ValueError, match="100"):
                await store.executions.find(ExecutionQuery(scope=ALICE, limit=limit))

    async def test_a_page_is_as_long_as_asked_for(self, store: Store) -> None:
        for n in range(120):
            store.executions.record(execution(n))
        for limit in (1, 100):
            assert len((await store.executions.find(ExecutionQuery(scope=ALICE, limit=limit))).items) == limit

    async def test_a_foreign_cursor_is_refused(self, store: Store) -> None:
        await store.executions.put(execution(1))
        for cursor in ("", "x", "1", "bm9uc2Vuc2U", "W10=", "\u00e4", "a" * 10_000, execution(999).id):
            with pytest.raises(ValueError, match="cursor"):
                await store.executions.find(ExecutionQuery(scope=ALICE, cursor=cursor))

    async def test_pages_neither_skip_nor_repeat_while_rows_are_added(self, store: Store) -> None:
        there = some_executions()
        for record in there:
            store.executions.record(record)
        seen: list[str] = []
        query = ExecutionQuery(scope=EVERYONE, limit=7)
        for n in range(1, 50):
            page = await store.executions.find(query)
            seen += [r.id for r in page.items]
            if page.cursor is None:
                break
            query = replace(query, cursor=page.cursor)
            store.executions.record(execution(1000 + n))
            store.executions.record(replace(there[-1], intent="changed"))
            store.executions.record(execution(2000 + n, started_at=there[0].started_at - timedelta(days=n)))
        expected = [r.id for r in sorted(there, key=lambda r: (r.started_at, r.id), reverse=True)]
        assert [id for id in seen if id in set(expected)] == expected

    async def test_the_last_page_has_no_cursor_and_every_page_has_the_total(self, store: Store) -> None:
        for n in range(9):
            store.executions.record(execution(n))
        pages = await every_page(store, ExecutionQuery(scope=ALICE, limit=3))
        assert [(len(page.items), page.total) for page in pages] == [(3, 9)] * 3
        assert (await every_page(store, ExecutionQuery(scope=BOB))) == [Page([], None, 0)]

    async def test_activity_counts_what_each_agent_did(self, store: Store) -> None:
        ends = [Status.OK, Status.OK, Status.ERROR, Status.TIMED_OUT, Status.CANCELLED, Status.DENIED]
        for n, status in enumerate(ends):
            store.executions.record(execution(n, status=status, duration_ms=n * 10 + 1, cost_usd=0.1))
        store.executions.record(execution(10, status="pending", duration_ms=None))
        store.executions.record(execution(11, status="running", duration_ms=None))
        store.executions.record(execution(20, agent="zed", status="running", duration_ms=None))
        store.executions.record(execution(21, agent="abe", duration_ms=7))
        claude, abe, zed = await store.executions.activity(ExecutionQuery(scope=ALICE, limit=1, cursor="ignored"))
        assert (claude.group, claude.executions) == ("claude", 8)
        assert (claude.succeeded, claude.failed, claude.running) == (2, 4, 2)
        assert claude.cost_usd == 0.6
        assert (claude.mean_duration_ms, type(claude.mean_duration_ms)) == (26, int)
        assert claude.last_started_at == execution(11).started_at
        assert (abe.group, abe.executions, abe.succeeded, abe.mean_duration_ms) == ("abe", 1, 1, 7)
        assert (zed.group, zed.running, zed.mean_duration_ms, zed.cost_usd) == ("zed", 1, None, 0)

    async def test_activity_agrees_with_a_plain_filter(self, store: Store) -> None:
        records = some_executions()
        await written(store, records)
        for query in some_queries():
            rows = await store.executions.activity(query)
            agents = [r.agent for r in records if matches(r, query)]
            expected = sorted(((agent, agents.count(agent)) for agent in set(agents)), key=lambda r: (-r[1], r[0]))
            assert [(row.group, row.executions) for row in rows] == expected, query
