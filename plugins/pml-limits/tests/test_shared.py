"""Several gateways on one store: processes of their own, and one that is killed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from pml_core.plugins.nulls import MemoryStore
from pml_hookspecs import Status, ToolCall
from pml_kit.shared import lease
from pml_limits import slots
from pml_limits.settings import Rule, Settings
from pml_limits.wrapper import Limiter
from pml_store_sqlite.settings import Settings as SqliteSettings
from pml_store_sqlite.store import SqliteStore
from pml_testing.fakes import FakeRun, FakeServices
from pml_testing.wrapper import Next

pytestmark = pytest.mark.anyio
GATEWAY = """
import asyncio, json, sys
from pml_hookspecs import ToolCall
from pml_limits.settings import Rule, Settings
from pml_limits.wrapper import Limiter
from pml_store_sqlite.settings import Settings as SqliteSettings
from pml_store_sqlite.store import SqliteStore
from pml_testing.fakes import FakeRun, FakeServices, outcome

path, rule, calls, hold = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "hold"

async def following(task, run):
    if hold:
        print("held", flush=True)
        await asyncio.Event().wait()
    return outcome(task.id, cost_usd=0.01)

async def main():
    async with SqliteStore(SqliteSettings(path=path), FakeServices("sqlite")) as store:
        limiter = Limiter(FakeServices("limits", store=store), Settings(rules={"r": Rule(**rule)}, shared=True))
        print("ready", flush=True)
        sys.stdin.readline()
        async def one(n):
            run = FakeRun()
            run.id = str(n)
            return (await limiter(ToolCall(id=str(n), tool="fs:read"), run, following)).status.value
        ended = await asyncio.gather(*(one(n) for n in range(calls)))
        print(json.dumps(ended), flush=True)

asyncio.run(main())
"""


class Gateway:
    """A process with a limiter on a store."""

    def __init__(self, path, rule, calls, *, hold=False):
        words = [str(path), json.dumps(rule), str(calls), "hold" if hold else ""]
        self._process = subprocess.Popen(
            [sys.executable, "-c", GATEWAY, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._process.kill()
        self._process.communicate()

    def line(self):
        return self._process.stdout.readline().strip()

    def go(self):
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def kill(self):
        self._process.kill()
        self._process.wait()


def together(path, rule, gateways=3, calls=40):
    """How the calls of all ended."""
    opened = [Gateway(path, rule, calls) for _ in range(gateways)]
    try:
        for gateway in opened:
            assert gateway.line() == "ready"
        for gateway in opened:
            gateway.go()
        return [status for gateway in opened for status in json.loads(gateway.line())]
    finally:
        for gateway in opened:
            gateway.__exit__()


def test_three_processes_on_one_store_let_pass_exactly_what_one_would(tmp_path):
    ended = together(tmp_path / "pml.db", {"rate": "50/day"})
    assert len(ended) == 120
    assert ended.count("ok") == 50


def test_what_three_processes_spend_is_added_up(tmp_path):
    path = tmp_path / "pml.db"
    together(path, {"daily_usd": 100})

    async def spent():
        async with SqliteStore(SqliteSettings(path=str(path)), FakeServices("sqlite")) as store:
            (document,) = (await store.documents.find("limits.spent")).items
            return document.value["micro_usd"]

    assert asyncio.run(spent()) == 120 * 10_000


async def test_the_slots_of_a_killed_gateway_are_free_again_once_its_lease_is_over(tmp_path, monkeypatch):
    path, rule = tmp_path / "pml.db", {"concurrency": 1}
    with Gateway(path, rule, 1, hold=True) as other:
        assert other.line() == "ready"
        other.go()
        assert other.line() == "held"
        async with SqliteStore(SqliteSettings(path=str(path)), FakeServices("sqlite")) as store:
            services = FakeServices("limits", store=store)
            limiter = Limiter(services, Settings(rules={"r": Rule(**rule)}, shared=True))
            task = ToolCall(id="x", tool="fs:read")
            assert (await limiter(task, FakeRun(), Next())).failure.code == "limit.concurrency"
            other.kill()
            assert (await limiter(task, FakeRun(), Next())).failure.code == "limit.concurrency"
            later = SimpleNamespace(monotonic=lambda: time.monotonic() + slots.LEASE_S + 1)
            monkeypatch.setattr(lease, "time", later)
            assert (await limiter(task, FakeRun(), Next())).status is Status.OK


class Clocks:
    """Of machines that do not agree by an hour: each look at one is a look at another."""

    def __init__(self):
        self._early = False

    def time(self):
        self._early = not self._early
        return time.time() + (-3600 if self._early else 3600)

    def monotonic(self):
        return time.monotonic()


async def test_no_clock_of_another_machine_frees_a_slot(monkeypatch):
    monkeypatch.setattr(slots, "time", Clocks())
    store, rules = MemoryStore(), Settings(rules={"r": Rule(concurrency=1)}, shared=True)
    mine, other = (Limiter(FakeServices("limits", store=store), rules).shared_slots for _ in range(2))
    (limit,) = Limiter(FakeServices("limits", store=store), rules).rules.of(
        ToolCall(id="x", tool="fs:read"), FakeRun().session
    ).slots  # fmt: skip
    for _ in range(6):
        token = await mine.take(limit)
        assert await other.take(limit) is None
        await mine.give_back(limit, token)
    token = await mine.take(limit)
    (document,) = (await store.documents.find(slots.COLLECTION)).items
    assert document.expires_at - datetime.now(UTC) > timedelta(hours=1)
    await mine.give_back(limit, token)


async def test_who_was_gone_before_a_gateway_started_is_known_to_be_after_one_lease(monkeypatch):
    store, rules = MemoryStore(), Settings(rules={"r": Rule(concurrency=1)}, shared=True)
    dead, heir = (Limiter(FakeServices("limits", store=store), rules) for _ in range(2))
    (limit,) = dead.rules.of(ToolCall(id="x", tool="fs:read"), FakeRun().session).slots
    assert await dead.shared_slots.take(limit)
    renewing = asyncio.ensure_future(heir.shared_slots.renew())
    await asyncio.sleep(0.05)
    monkeypatch.setattr(lease, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + slots.LEASE_S + 1))
    assert await heir.shared_slots.take(limit)
    renewing.cancel()
    await asyncio.wait([renewing])


async def test_whoever_stood_still_has_lost_its_slot_and_is_ended(monkeypatch):
    store, rules = MemoryStore(), Settings(rules={"r": Rule(concurrency=1)}, shared=True)
    stood, heir = (Limiter(FakeServices("limits", store=store), rules) for _ in range(2))
    task, began = ToolCall(id="x", tool="fs:read"), asyncio.Event()

    async def works(task, run):
        began.set()
        await asyncio.Event().wait()

    under_way = asyncio.ensure_future(stood(task, FakeRun(), works))
    await began.wait()
    (limit,) = stood.rules.of(task, FakeRun().session).slots
    assert await heir.shared_slots.take(limit) is None
    monkeypatch.setattr(lease, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + slots.LEASE_S + 1))
    token = await heir.shared_slots.take(limit)
    await stood.shared_slots._renew(limit.key)  # as it does once it goes on
    ended = await under_way
    assert (ended.status, ended.failure.code, ended.failure.retryable) == (Status.ERROR, "limit.lost", True)
    document = await store.documents.get(slots.COLLECTION, limit.key)
    assert list(document.value["holders"]) == [token]


async def test_a_timeout_of_the_tool_itself_is_not_told_as_a_lost_slot():
    async def times_out(task, run):
        raise TimeoutError("the server's own")

    limiter = Limiter(
        FakeServices("limits", store=MemoryStore()), Settings(rules={"r": Rule(concurrency=1)}, shared=True)
    )
    with pytest.raises(TimeoutError, match="the server's own"):
        await limiter(ToolCall(id="x", tool="fs:read"), FakeRun(), times_out)


async def test_leases_of_a_gateway_that_lives_are_renewed(monkeypatch):
    monkeypatch.setattr(slots, "RENEW_S", 0.01)
    store = MemoryStore()
    services = FakeServices("limits", store=store)
    limiter = Limiter(services, Settings(rules={"r": Rule(concurrency=1)}, shared=True))
    (limit,) = limiter.rules.of(ToolCall(id="x", tool="fs:read"), FakeRun().session).slots
    token = await limiter.shared_slots.take(limit)

    async def ends():
        return (await store.documents.get(slots.COLLECTION, limit.key)).value["holders"][token]

    first = await ends()
    renewing = asyncio.ensure_future(limiter.shared_slots.renew())
    async with asyncio.timeout(60):
        while await ends() <= first:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.005)
    renewing.cancel()
    await asyncio.wait([renewing])
    await limiter.shared_slots.give_back(limit, token)


class Broken(MemoryStore):
    """Fails when it is told to."""

    def __init__(self):
        super().__init__()
        self.broken = False
        for name in ("put", "get"):
            setattr(self.documents, name, self._or_fail(getattr(self.documents, name)))

    def _or_fail(self, method):
        async def tried(*args, **more):
            if self.broken:
                raise OSError("No space left on device")
            return await method(*args, **more)

        return tried


@pytest.mark.parametrize("rule", [{"rate": "3/hour"}, {"concurrency": 3}, {"daily_usd": 5}])
async def test_while_the_store_is_out_of_order_each_gateway_counts_alone_and_says_so(rule):
    store = Broken()
    services = FakeServices("limits", store=store)
    limiter = Limiter(services, Settings(rules={"r": Rule(**rule)}, shared=True))
    store.broken = True
    task = ToolCall(id="x", tool="fs:read")
    ended = [(await limiter(task, FakeRun(), Next())).status for _ in range(4)]
    assert ended[:3] == [Status.OK] * 3
    assert (ended[3] is Status.DENIED) == ("rate" in rule)
    assert [level for level, *_ in services.log.lines] == ["warning"]
    store.broken = False
    assert (await limiter(task, FakeRun(), Next())).status is Status.OK


async def test_what_could_not_be_written_of_a_budget_is_written_later():
    store = Broken()
    limiter = Limiter(FakeServices("limits", store=store), Settings(rules={"r": Rule(daily_usd=1)}, shared=True))
    (limit,) = limiter.rules.of(ToolCall(id="x", tool="fs:read"), FakeRun().session).budgets
    store.broken = True
    await limiter.budgets.spend((limit,), 0.4)
    store.broken = False
    await limiter.budgets.spend((limit,), 0.2)
    (document,) = (await store.documents.find("limits.spent")).items
    assert document.value["micro_usd"] == 600_000


async def test_many_calls_at_a_time_share_their_writes():
    store = MemoryStore()
    writes = 0
    put = store.documents.put

    async def counted(*args, **more):
        nonlocal writes
        writes += 1
        await asyncio.sleep(0)
        return await put(*args, **more)

    store.documents.put = counted
    limiter = Limiter(FakeServices("limits", store=store), Settings(rules={"r": Rule(rate="150/hour")}, shared=True))
    calls = [limiter(ToolCall(id=str(n), tool="fs:read"), FakeRun(), Next()) for n in range(200)]
    ended = [outcome.status for outcome in await asyncio.gather(*calls)]
    assert ended.count(Status.OK) == 150
    assert writes <= 5
