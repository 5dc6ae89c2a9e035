"""The contract every store keeps. Subclass, give ``store_type`` and ``settings``; or run ``pytest --pml-contract``."""

from __future__ import annotations

import asyncio
import pickle
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pml_hookspecs import Ended, ExecutionId, ExecutionQuery, RawObject, ServerStatus, Status, Store, encode, replace
from pml_kit.waits import STORE_S, LoopTimer

from .fakes import FakeServices
from .records import ALICE, BOB, EVERYONE, NOBODY, ended, execution, plain, tools
from .store_documents import DocumentsContract
from .store_executions import DEADLINE_S, ExecutionsContract
from .store_prune import PruneContract
from .store_secrets import SecretsContract
from .store_text import TextContract
from .store_totals import TotalsContract

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry

PUT_UNTIL_KILLED = """
import asyncio, pickle, sys
from pml_hookspecs import replace
sys.path[:] = pickle.load(sys.stdin.buffer)
store_type, settings, record, ids = pickle.load(sys.stdin.buffer)

async def main():
    async with store_type(settings, None) as store:
        for id in ids:
            await store.executions.put(replace(record, id=id))
            await store.secrets.put("test", "last", id)
            await store.documents.put("test", id, {"id": id}, marks={"kind": "one"})
            print(id, flush=True)

asyncio.run(main())
"""


async def kept(working: Awaitable[Any]) -> float:
    """For how long it keeps the event loop at a time, at most [s]."""
    timer = LoopTimer(working)
    await timer
    return timer.longest_s


@pytest.mark.anyio
class StoreContract(
    ExecutionsContract, TextContract, TotalsContract, PruneContract, SecretsContract, DocumentsContract
):
    """What the gateway relies on, whatever the store is made of."""

    group = "pml.store"

    @pytest.fixture
    def store_type(self) -> Any:
        """The driver class."""
        raise NotImplementedError("override: return the store class to test")

    @pytest.fixture
    def settings(self) -> Any:
        """Settings that lead to data of this one test; instances made with them share the data. Can be pickled."""
        raise NotImplementedError("override: return settings with an empty place to keep data in")

    @pytest.fixture
    def open_store(self, store_type: Any, settings: Any) -> Callable[[], Store]:
        """Makes a store, not entered yet, over the data of this test."""
        return lambda: store_type(settings, FakeServices())

    @pytest.fixture
    async def store(self, open_store: Callable[[], Store]) -> AsyncIterator[Store]:
        """A store that is up."""
        async with open_store() as store:
            yield store

    async def test_construction_takes_settings_and_services(self, store_type: Any) -> None:
        for arguments in ((), (None, None), (store_type.settings_type(), FakeServices())):
            assert hasattr(store_type(*arguments), "__aenter__")

    async def test_leaving_writes_what_is_queued(self, open_store: Callable[[], Store]) -> None:
        async with open_store() as store:
            for n in range(700):
                store.executions.record(execution(n))
                store.documents.put_soon("test", f"{n}", {})
        async with open_store() as store:
            (row,) = await store.executions.activity(ExecutionQuery(scope=EVERYONE))
            assert (await store.documents.find("test")).total == 700
        assert row.executions == 700

    async def test_everything_is_there_the_next_time(self, open_store: Callable[[], Store]) -> None:
        async with open_store() as store:
            await store.executions.put(execution(1))
            await store.traces.append([ended(1, execution(1).id)])
            await store.catalog.replace("files", "v1", tools(["read"]))
            await store.catalog.report(ServerStatus(name="files", state="up"))
            await store.secrets.put("http", "git", "token")
            await store.documents.put("test", "a", {"n": 1}, marks={"kind": "one"})
            await store.documents.put("test", "a", {"n": 2}, marks={"kind": "one"})
            (kept,) = (await store.documents.find("test")).items
        async with open_store() as store:
            assert await store.executions.get(execution(1).id, ALICE) == execution(1)
            assert len(await store.traces.of(execution(1).id, ALICE)) == 1
            assert len(await store.catalog.entries("files", "v1")) == 1
            assert await store.catalog.statuses() == [ServerStatus(name="files", state="up")]
            assert await store.secrets.get("http", "git") == "token"
            assert await store.documents.get("test", "a") == kept
            assert list((await store.documents.find("test", marks={"kind": "one"})).items) == [kept]

    async def test_what_was_put_survives_a_kill(
        self, store_type: Any, settings: Any, open_store: Callable[[], Store]
    ) -> None:
        ids = [execution(n).id for n in range(20_000)]
        with child(sys.path, (store_type, settings, execution(0), ids)) as process:
            acknowledged = [process.stdout.readline() for _ in range(20)]
            process.kill()
            rest = process.stdout.read()
            problem = process.stderr.read()
        acknowledged += [line for line in rest.splitlines(keepends=True) if line.endswith(b"\n")]
        assert acknowledged[0], problem.decode()
        async with open_store() as store:
            for line in acknowledged:
                id = line.decode().strip()
                assert await store.executions.get(ExecutionId(id), EVERYONE) is not None
                assert await store.documents.get("test", id) is not None
            secret = await store.secrets.get("test", "last")
            assert secret in ids[len(acknowledged) - 1 :]

    async def test_health_is_json_and_cheap(self, store: Store) -> None:
        for n in range(200):
            store.executions.record(execution(n))
        taken = []
        for _ in range(9):
            start = time.perf_counter()
            health = await store.health()
            taken.append(time.perf_counter() - start)
        assert health
        assert plain(RawObject(encode(health))) == plain(health)
        assert statistics.median(taken) <= 0.02

    async def test_keeps_the_event_loop_for_nothing(self, open_store: Callable[[], Store]) -> None:
        """Wall time, with a wide margin: what takes long is awaited, or everybody waits."""
        store = open_store()
        kept_s = {"__aenter__": await kept(store.__aenter__())}
        query = ExecutionQuery(scope=EVERYONE)
        try:
            many = [ended(n, execution(1).id) for n in range(500)]
            for name, working in (
                ("executions.put", lambda: store.executions.put(execution(1))),
                ("executions.get", lambda: store.executions.get(execution(1).id, EVERYONE)),
                ("executions.find", lambda: store.executions.find(query)),
                ("executions.activity", lambda: store.executions.activity(query)),
                ("executions.totals", lambda: store.executions.totals(query, "agent")),
                ("traces.append", lambda: store.traces.append(many)),
                ("traces.of", lambda: store.traces.of(execution(1).id, EVERYONE)),
                ("catalog.replace", lambda: store.catalog.replace("files", "v1", tools(["read"]))),
                ("catalog.statuses", store.catalog.statuses),
                ("secrets.put", lambda: store.secrets.put("http", "git", "token")),
                ("documents.put", lambda: store.documents.put("test", "a", {"n": 1})),
                ("documents.find", lambda: store.documents.find("test")),
            ):
                kept_s[name] = await kept(working())
        finally:
            kept_s["__aexit__"] = await kept(store.__aexit__(None, None, None))
        assert {name: took_s for name, took_s in kept_s.items() if took_s > STORE_S} == {}

    async def test_every_field_of_a_span_comes_back(self, store: Store) -> None:
        attributes = {"gen_ai.tool.name": "größe", "n": [1, 2.5, None], "deep": {"a": True}}
        more = Ended(
            span=ended(1, execution(1).id, parent_id=f"{7:016x}", attributes=attributes, kind="internal").span,
            end_ns=1_767_225_600_123_456_789,
            status=Status.TIMED_OUT,
            attributes={"error.type": "tool.timed_out"},
        )
        await store.executions.put(execution(1))
        await store.traces.append([ended(2, execution(1).id), more])
        assert list(await store.traces.of(execution(1).id, ALICE)) == [more, ended(2, execution(1).id)]

    async def test_spans_come_in_start_order_and_only_of_the_execution(self, store: Store) -> None:
        for n in (1, 2):
            await store.executions.put(execution(n))
        spans = [ended(n, execution(n % 2 + 1).id) for n in (5, 3, 9, 1, 4, 8)]
        await store.traces.append([*spans[:4], ended(100)])
        await store.traces.append(spans[4:])
        assert [e.span.span_id for e in await store.traces.of(execution(2).id, ALICE)] == [
            f"{n:016x}" for n in (1, 3, 5, 9)
        ]
        assert not await store.traces.of(execution(3).id, EVERYONE)

    async def test_spans_seen_twice_are_kept_once(self, store: Store) -> None:
        await store.executions.put(execution(1))
        first, other_trace = ended(1, execution(1).id), ended(1, execution(1).id, trace_id=f"{2:032x}")
        await store.traces.append([first, first, other_trace])
        await store.traces.append([replace(first, status=Status.ERROR), ended(2, execution(1).id)])
        found = await store.traces.of(execution(1).id, ALICE)
        assert sorted((e.span.trace_id, e.span.span_id, e.status) for e in found) == sorted(
            (e.span.trace_id, e.span.span_id, e.status) for e in (first, other_trace, ended(2))
        )

    async def test_scope_limits_spans(self, store: Store) -> None:
        store.executions.record(execution(1))
        await store.traces.append([ended(1, execution(1).id)])
        for scope, expected in ((ALICE, 1), (EVERYONE, 1), (BOB, 0), (NOBODY, 0)):
            assert len(await store.traces.of(execution(1).id, scope)) == expected

    async def test_tools_come_back_as_they_came_and_by_name(self, store: Store) -> None:
        entries = [*tools(["write", "Read", "read", "größe", "a:b"])]
        entries[0] = replace(entries[0], definition=RawObject(encode(entries[0].definition)), meta=True)
        await store.catalog.replace("files", "v1", entries)
        found = await store.catalog.entries("files", "v1")
        assert found == sorted(entries, key=lambda e: e.name)
        assert [encode(e.definition) for e in found] == [
            encode(e.definition) for e in sorted(entries, key=lambda e: e.name)
        ]

    async def test_tools_are_known_under_their_fingerprint_only(self, store: Store) -> None:
        await store.catalog.replace("files", "v1", tools(["read"]))
        await store.catalog.replace("web", "v1", tools(["get", "put"], "web"))
        assert not await store.catalog.entries("files", "v2")
        assert not await store.catalog.entries("nobody", "v1")
        await store.catalog.replace("files", "v2", tools(["write"]))
        assert not await store.catalog.entries("files", "v1")
        assert [e.name for e in await store.catalog.entries("files", "v2")] == ["write"]
        assert [e.name for e in await store.catalog.entries("web", "v1")] == ["get", "put"]

    async def test_tools_are_replaced_and_not_added_to(self, store: Store) -> None:
        await store.catalog.replace("files", "v1", tools(["read", "write"]))
        await store.catalog.replace("files", "v1", tools(["write", "zip"]))
        assert [e.name for e in await store.catalog.entries("files", "v1")] == ["write", "zip"]
        await store.catalog.replace("files", "v1", [])
        assert not await store.catalog.entries("files", "v1")

    async def test_tools_are_replaced_all_at_once(self, store: Store) -> None:
        many, few = tools([f"many_{n:02}" for n in range(40)]), tools([f"few_{n:02}" for n in range(20)])
        await store.catalog.replace("files", "v1", many)
        writing = asyncio.ensure_future(self._replace_in_turn(store, [few, many] * 10))
        seen = set()
        async with asyncio.timeout(DEADLINE_S):
            while not writing.done():
                seen.add(tuple(e.name for e in await store.catalog.entries("files", "v1")))
                await asyncio.sleep(0)
            await writing
        assert seen <= {tuple(e.name for e in entries) for entries in (many, few)}

    @staticmethod
    async def _replace_in_turn(store: Store, sets: list[list[CatalogEntry]]) -> None:
        for entries in sets:
            await store.catalog.replace("files", "v1", entries)
            await asyncio.sleep(0)

    async def test_the_last_report_of_each_server_is_kept(self, store: Store) -> None:
        assert not await store.catalog.statuses()
        await store.catalog.report(ServerStatus(name="web", state="starting"))
        await store.catalog.report(
            ServerStatus(name="files", state="up", tools=3, restarts=2, description="Files: größe")
        )
        down = ServerStatus(name="web", state="down", reason="Not found: größe; install it.", tools=1)
        await store.catalog.report(down)
        assert list(await store.catalog.statuses()) == [
            ServerStatus(name="files", state="up", tools=3, restarts=2, description="Files: größe"),
            down,
        ]


@contextmanager
def child(*pickled: Any) -> Iterator[Any]:
    """A process running :data:`PUT_UNTIL_KILLED`, killed at the end at the latest."""
    process = subprocess.Popen(
        [sys.executable, "-c", PUT_UNTIL_KILLED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = threading.Timer(DEADLINE_S, process.kill)
    deadline.start()
    try:
        with process:
            for value in pickled:
                pickle.dump(value, process.stdin)  # type: ignore[arg-type]
            process.stdin.close()  # type: ignore[union-attr]
            try:
                yield process
            finally:
                process.kill()
    finally:
        deadline.cancel()
