"""What is kept of real calls, and what it costs them."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from pml_core.plugins.nulls import MemoryStore
from pml_dry_run import plugin, recorder, recording_rate
from pml_hookspecs import Failure, RawObject, Session, ToolCall
from pml_kit.offers import RECORDED_ANSWERS, RecordedTool
from pml_testing.fakes import FakeRun, entry, outcome

pytestmark = pytest.mark.anyio

TOOL = entry("fs:read")


def text(value):
    return {"content": [{"type": "text", "text": value}]}


async def recorded(made):
    return (await made.recordings.all())[0]


async def test_what_was_noted_is_written_when_the_gateway_ends(kit):
    async with kit([TOOL]) as made:
        await made.real("fs:read", text("a"))
        assert (await made.store.documents.find("dry_run.recordings")).total == 0
    (kept,) = (await made.store.documents.find("dry_run.recordings")).items
    assert kept.marks.keys() == {"tool", "shape", "call"}
    in_days = (kept.expires_at - datetime.now(UTC)) / timedelta(days=1)
    assert in_days == pytest.approx(30, abs=0.1)
    (definition,) = (await made.store.documents.find("dry_run.definitions")).items
    assert (definition.key, definition.value["definition"]["name"]) == (TOOL.digest, "read")


async def test_what_is_on_record_is_offered_to_others(kit):
    declared = entry("fs:stat", outputSchema={"type": "object"})
    async with kit([TOOL, declared]) as made:
        await made.real("fs:read", text('{"size": 1}'), {"path": "x"})
        await made.real("fs:read", text("gone"), {"path": "y"}, failure=Failure("tool.failed", "gone"))
        await made.real("fs:stat", text("a"))
        (offer,) = plugin.pml_offers(made.services)
        assert offer.key is RECORDED_ANSWERS
        ann, bob = Session(key="k", principal="local"), Session(key="k", principal="bob")
        known = await offer.service.of_tool(TOOL, ann)
        assert (known.calls, len(known.durations_ms), known.shown) == (2, 1, True)
        assert known.result["properties"] == {"size": {"type": "integer"}}
        assert (await offer.service.of_tool(declared, ann)).result is None
        assert await offer.service.of_tool(TOOL, bob) == RecordedTool()
        same, other = (ToolCall(id="t", tool="fs:read", arguments={"path": path}) for path in ("x", "z"))
        asked = [(same, TOOL, ann), (other, TOOL, ann), (same, TOOL, bob)]
        assert [await offer.service.answers(*one) for one in asked] == [True, False, False]


async def test_equal_answers_in_a_row_are_one_recording(kit):
    async with kit([TOOL]) as made:
        for answer in ("a", "a", "b", "a"):
            await made.real("fs:read", text(answer), {"path": "x"})
        # The same, written otherwise.
        await made.real("fs:read", b'{ "content":[{"type":"text","text":"a"}]}', {"path": "x"})
        kept = sorted(await recorded(made), key=lambda r: r.number)
    assert [(r.number, r.times, json.loads(r.answer)["content"][0]["text"]) for r in kept] == [
        (0, 2, "a"), (1, 1, "b"), (2, 1, "a"), (3, 1, "a"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "tool", "wanted"),
    [
        ({}, "fs:read", True),
        ({"record": False}, "fs:read", False),
        ({"record_tools": ("git:*",)}, "fs:read", False),
        ({"never_record": ("fs:*",)}, "fs:read", False),
        ({"never_record": ("fs:write",)}, "fs:read", True),
        ({}, "pml:search_tools", False),
        ({}, "fs:unknown", False),
    ],
)
async def test_what_is_not_to_be_kept_is_not(kit, settings, tool, wanted):
    async with kit([TOOL, entry("pml:search_tools")], **settings) as made:
        await made.real(tool, text("a"))
        assert bool(await recorded(made)) is wanted


async def test_what_is_too_long_is_not_kept(kit):
    async with kit([TOOL], max_bytes=256) as made:
        await made.real("fs:read", text("a" * 300))
        await made.real("fs:read", text("a"), {"path": "x" * 300})
        await made.real("fs:read", text("a" * 9999))
        assert await recorded(made) == []


async def test_of_each_tool_the_newest_are_kept(kit):
    async with kit([TOOL, entry("fs:other")], max_per_tool=3, per_second=1e9, cpu_share=1) as made:
        await made.real("fs:other", text("a"))
        for n in range(30):
            await made.real("fs:read", text("a"), {"n": n})
    kept = await recorded(made)
    assert {r.given["n"] for r in kept if r.tool == "fs:read"} == {27, 28, 29}
    assert len(kept) == 4


async def test_secrets_are_gone_before_anything_is_written(kit):
    class Watching(MemoryStore):
        pass

    async with kit([TOOL], Watching()) as made:
        await made.real("fs:read", text('say "hunter2"'), {"password": "hunter2"}, other="hunter2")
    documents = (await made.store.documents.find("dry_run.recordings")).items
    assert documents
    assert b"hunter2" not in b"".join(RawObject.of(d.value).raw for d in documents)
    (kept,) = await recorded(made)
    assert (kept.redacted, kept.given) == (True, {"password": "***"})


async def test_an_answer_that_is_no_json_stops_nothing(kit):
    async with kit([TOOL]) as made:
        await made.real("fs:read", b'{"a\\": nonsense', {"n": 1})
        await made.real("fs:read", text("a"), {"n": 2})
        assert len(await recorded(made)) == 1
    assert [line[1] for line in made.services.log.lines] == ["an answer cannot be recorded"]


async def test_what_comes_too_fast_for_too_long_is_dropped_and_said(kit, monkeypatch):
    monkeypatch.setattr(recorder, "MOST_PENDING", 10)
    async with kit([TOOL], cpu_share=0.001) as made:
        for n in range(15):
            await made.real("fs:read", text("a"), {"n": n})
        assert made.recorder.dropped == 5
    assert len(await recorded(made)) == 10
    assert "recordings were dropped" in [line[1] for line in made.services.log.lines]


async def test_noting_a_call_takes_few_microseconds(kit):
    """The work of writing is done later, and within ``cpu_share``."""
    async with kit([TOOL]) as made:
        ended = outcome("t", RawObject(b'{"content": []}'))
        task, run = ToolCall(id="t", tool=TOOL.id, arguments=RawObject(b"{}")), FakeRun()

        async def server(_task, _run):
            return ended

        async def took(call):
            started = time.thread_time()
            for _ in range(900):
                await call(task, run)
            return (time.thread_time() - started) / 900

        async def through(task, run):
            return await made.recorder(task, run, server)

        extra = min([await took(through) - await took(server) for _ in range(1)])
        assert extra < 30e-6
        assert made.recorder.dropped == 0


async def test_the_background_rests_in_proportion_to_what_it_worked(kit, monkeypatch):
    rests = []

    async def sleep(seconds):
        rests.append(seconds)

    monkeypatch.setattr(recorder.asyncio, "sleep", sleep)
    async with kit([TOOL], cpu_share=0.1) as made:
        await made.recorder._rest_after(0.5)
    assert rests[0] == pytest.approx(0.5 * recorder.STORE_FACTOR * 9)


async def test_of_a_tool_that_is_called_often_only_some_calls_are_recorded(kit, monkeypatch):
    now_s = 0.0
    monkeypatch.setattr(recording_rate.time, "monotonic", lambda: now_s)
    async with kit([TOOL, entry("fs:other")], max_per_tool=5, per_second=2, cpu_share=1) as made:
        for n in range(20):
            await made.real("fs:read", text("a"), {"n": n})
        now_s = 1.5
        for n in range(20, 30):
            await made.real("fs:read", text("a"), {"n": n})
        await made.real("fs:other", text("a"))
        kept = await recorded(made)
    assert sorted(r.given["n"] for r in kept if r.tool == "fs:read") == [0, 1, 2, 3, 4, 20, 21, 22]
    assert len(kept) == 9


async def test_further_calls_are_recorded_as_long_as_that_costs_little(kit, monkeypatch):
    used_s = 0.0
    monkeypatch.setattr(recording_rate.time, "process_time", lambda: used_s)
    async with kit([TOOL], max_per_tool=5, per_second=1e9) as made:
        for n in range(5):
            await made.real("fs:read", text("a"), {"n": n})
        for n in range(5, 1005):
            used_s += 0.001
            await made.real("fs:read", text("a"), {"n": n})
        noted = len(made.recorder._pending)
    # A second of work, two hundredths of it for recording.
    price_s = recording_rate.FIRST_PRICE_S + recorder.NOTE_S
    assert noted * price_s == pytest.approx(0.02, abs=2 * price_s)


@pytest.mark.parametrize("price_s", [20e-6, 300e-6, 2e-3])
def test_recording_takes_its_share_of_the_processor_whatever_one_costs(monkeypatch, price_s):
    used_s = spent_s = 0.0
    monkeypatch.setattr(recording_rate.time, "process_time", lambda: used_s)
    budget = recording_rate.ProcessorBudget(0.05)
    for n in range(60_000):
        used_s += 0.001
        if budget.allows(0):
            spent_s += price_s
            used_s += price_s
            budget.spend(price_s, 1)
        if n == 30_000:
            first, began = spent_s, used_s
    # Every call, where that costs no more.
    share = min(0.05, price_s / (price_s + 0.001))
    assert (spent_s - first) / (used_s - began) == pytest.approx(share, rel=0.05)


def test_what_was_put_by_while_nothing_was_recorded_is_bounded(monkeypatch):
    used_s = 0.0
    monkeypatch.setattr(recording_rate.time, "process_time", lambda: used_s)
    budget = recording_rate.ProcessorBudget(0.05)
    used_s = 1e6
    allowed = 0
    while budget.allows(allowed):
        allowed += 1
    assert allowed * recording_rate.FIRST_PRICE_S == pytest.approx(
        recording_rate.MOST_CREDIT_S, abs=recording_rate.FIRST_PRICE_S
    )


def test_what_was_recorded_at_any_pace_is_paid_for_later(monkeypatch):
    used_s = 0.0
    monkeypatch.setattr(recording_rate.time, "process_time", lambda: used_s)
    budget = recording_rate.ProcessorBudget(0.05)
    budget.spend(0.015, 50)
    used_s = 0.3
    assert not budget.allows(0)
    used_s = 0.31
    assert budget.allows(0)


async def test_many_calls_are_written_without_waiting_for_more(kit, monkeypatch):
    monkeypatch.setattr(recorder, "MANY", 3)
    async with kit([TOOL], cpu_share=1) as made:
        for n in range(3):
            await made.real("fs:read", text("a"), {"n": n})
        async with asyncio.timeout(recorder.GATHER_S / 2):
            while (await made.store.documents.find("dry_run.recordings")).total < 3:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0)
