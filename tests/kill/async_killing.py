"""Kill a gateway under load again and again, and see what became of all that it had said it would do, or had done.

    python tests/kill/async_killing.py --kills 200 --store sqlite
    python tests/kill/async_killing.py --kills 200 --store postgres
    python tests/kill/async_killing.py --kills 200 --durable

The load is of three kinds: runs of an agent and workflows in the background, whose ids come at once, and calls that are
waited for. With ``--durable`` the workflows go on with the next gateway, without they are lost with theirs. Each leaves
traces on the disk. Gateways wait for rows (``durability = "full"``) in half of their lives. What is checked:

- whatever was acknowledged is in the store after the kill, and ends: well, or as ``execution.lost``;
- nothing leaves two traces, and what ended well has left all of its own;
- of calls that were answered more than 0.1 s before the kill the rows are there, and all of them with ``full``;
- the database is whole after each kill, and in the end nothing is said to be under way.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gateway_process import COUNTING, LAST_WORDS, GatewayProcess, KilledError, Site

from pml_executor_dbos.ledger import Ledger
from pml_executor_dbos.settings import Settings as DurableSettings
from pml_hookspecs import ExecutionId, ExecutionQuery, ExecutionRecord, Scope, Store
from pml_testing.fakes import FakeServices

EVERYONE = Scope(principals=None)
UNDER_WAY = frozenset({"pending", "running"})
LATE_S = 0.1
"""Rows of what was answered so shortly before a kill may be missing; longer by what this machine kept processes waiting
for a processor, as far as we noticed [s]."""
WAITS = 3
"""How often a row waits for a processor: in the gateway's loop, in the thread that writes, and in the database."""
LOOK_S, LOOKED_S = 0.01, 1.0
"""How often we look how long we had to wait, and for how long it counts [s]."""
LEAST_LIFE_S, MOST_LIFE_S = 0.05, 3.0
"""How long a gateway is under load before it is killed [s]."""
AT_START, START_S = 0.15, 2.0
"""Part of the kills that come before a gateway is under load, and how long it has lived by then, at most [s]."""
CALLERS, CHATTERS, PLANNERS = 4, 3, 2
PAUSE_S, LAST_ANSWER_S = 0.04, 0.2
STARTED_S, ENDED_S, POLL_S = 60.0, 480.0, 0.05
WELL = {"ok"}
CONFIG = """
[gateway]
tools_exposure = "full_proxy"
block = {block}
store = "{store}"
durability = "{durability}"

[plugins.postgres]
url = "{url}"

[servers.counting]
command = {command}
args = {args}

[plugins.dbos]
database = {database}
heartbeat_s = 0.2

[plugins.agents.agents.counter]
tool = "counting:once"
argument = "key"
arguments = {{ before_ms = 30, after_ms = 30 }}
max_parallel = 64
max_queue = 10000
"""
"""Turns of killed gateways stand in the queue until a gateway has seen for 20 s that nobody renews them."""


@dataclass
class Tally:
    """What happened, and what must not have."""

    kills: int = 0
    acknowledged: int = 0
    under_way: int = 0
    """Of those acknowledged, how many had not ended when their gateway was killed."""
    lost_with_reason: int = 0
    in_doubt: int = 0
    answered: int = 0
    """Calls that were waited for."""
    missing: int = 0
    """Of those, rows missing that may be: the answer came shortly before the kill."""
    oldest_missing_ms: float = 0.0
    """How long before the kill the earliest of all missing was answered [ms]."""
    wrong: list[str] = field(default_factory=list)

    def told(self) -> dict[str, Any]:
        """As JSON."""
        return {**vars(self), "oldest_missing_ms": round(self.oldest_missing_ms, 1)}


@dataclass
class Life:
    """What one gateway said while it lived."""

    full: bool
    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    """Ids, and the traces that each is to leave."""
    answered: dict[str, float] = field(default_factory=dict)
    """Traces of calls, and when their answers came [s]."""
    waits: list[tuple[float, float]] = field(default_factory=list)
    """When we were kept waiting, and for how long [s]."""

    async def look(self) -> None:
        """Notice how long we have to wait for a processor. Never ends."""
        while True:
            due_at = time.monotonic() + LOOK_S
            await asyncio.sleep(LOOK_S)
            now = time.monotonic()
            self.waits.append((now, now - due_at))

    def late_s(self, killed_at: float) -> float:
        """How shortly before the kill an answer has come whose row may be missing [s]."""
        return LATE_S + WAITS * max((wait for at, wait in self.waits if at > killed_at - LOOKED_S), default=0.0)


class Killing:
    """One series of kills on one store."""

    def __init__(self, folder: Path, *, store: str, url: str, durable_url: str, durable: bool, seed: int) -> None:
        self.site = Site(folder, database=durable_url or str(folder / "durable.db"))
        self.store, self.url, self.durable = store, url, durable
        self._durable = durable_url or str(folder / "durable.db")
        self.ledger = Ledger(DurableSettings(database=self._durable))
        self.chance = random.Random(seed)
        self.tally = Tally()
        self._names = 0
        self._promised: dict[str, list[str]] = {}
        self._since = datetime.now(UTC)

    # Gateways

    def _configure(self, *, full: bool) -> None:
        text = CONFIG.format(
            store=self.store,
            block="[]" if self.durable else '["dbos"]',
            durability="full" if full else "soon",
            url=self.url,
            command=json.dumps(sys.executable),
            args=json.dumps([COUNTING, str(self.site.traces)]),
            database=json.dumps(self._durable),
        )
        self.site.config.write_text(text)

    async def run(self, kills: int, tell: Callable[[str], None]) -> Tally:
        """Kill so often, then see what became of everything."""
        try:
            while self.tally.kills < kills:
                await self._life()
                tell(f"{self.tally.kills} kills, {self.tally.acknowledged} acknowledged, wrong: {self.tally.wrong}")
            await self._last_life()
        finally:
            await self.ledger.close()
        return self.tally

    async def _started(self) -> GatewayProcess:
        gateway = await GatewayProcess(self.site).start()
        try:
            async with asyncio.timeout(STARTED_S):
                await gateway.hello()
        except TimeoutError:
            await gateway.kill()
            log = self.site.log.read_text(errors="replace")[-LAST_WORDS:]
            raise RuntimeError(f"no gateway after {STARTED_S:g} s: {log}") from None
        return gateway

    async def _life(self) -> None:
        life = Life(full=self.chance.random() < 0.5)
        self._configure(full=life.full)
        if self.chance.random() < AT_START:
            await self._killed_at_its_start()
            return
        gateway = await self._started()
        load = [self._calls(gateway, life) for _ in range(CALLERS)]
        load += [self._chats(gateway, life) for _ in range(CHATTERS)]
        load += [self._plans(gateway, life) for _ in range(PLANNERS)]
        tasks = [asyncio.create_task(work) for work in load]
        looking = asyncio.create_task(life.look())
        await asyncio.sleep(self.chance.uniform(LEAST_LIFE_S, MOST_LIFE_S))
        killed_at = time.monotonic()
        looking.cancel()
        await gateway.kill()
        # Whoever had his answer, and asks for more of a gateway that is gone, gets none.
        _, asking = await asyncio.wait(tasks, timeout=LAST_ANSWER_S)
        for task in asking:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(ended, (KilledError, asyncio.CancelledError)):
                self.tally.wrong.append(f"the load ended by itself: {ended!r}")
        self.tally.kills += 1
        self._check_file()
        await self._check_rows(life, killed_at)

    async def _killed_at_its_start(self) -> None:
        gateway = await GatewayProcess(self.site).start()
        await asyncio.sleep(self.chance.uniform(0, START_S))
        await gateway.kill()
        self.tally.kills += 1
        self._check_file()

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    # Load

    async def _calls(self, gateway: GatewayProcess, life: Life) -> None:
        while True:
            key = self._name("call")
            await self._succeeds(gateway, "counting__once", {"key": key, "after_ms": self.chance.randint(0, 10)})
            life.answered[key] = time.monotonic()

    async def _chats(self, gateway: GatewayProcess, life: Life) -> None:
        while True:
            key = self._name("chat")
            arguments = {"agent_name": "counter", "message": key, "parallel": True, "async": True}
            await self._acknowledged(gateway, life, "chat_with_agent", arguments, [key])

    async def _plans(self, gateway: GatewayProcess, life: Life) -> None:
        while True:
            keys = [self._name("plan"), self._name("plan")]
            waits = {"before_ms": 20, "after_ms": 20}
            tasks = [
                {"id": "a", "tool": "counting:once", "arguments": {"key": keys[0], **waits}},
                {"id": "b", "tool": "counting:once", "arguments": {"key": keys[1], **waits}, "depends_on": ["a"]},
            ]
            await self._acknowledged(
                gateway, life, "execute_workflow", {"workflow": {"tasks": tasks}, "async": True}, keys
            )

    async def _acknowledged(
        self, gateway: GatewayProcess, life: Life, tool: str, arguments: dict[str, Any], keys: list[str]
    ) -> None:
        told = (await self._succeeds(gateway, tool, arguments))["structuredContent"]
        if told.get("status") != "pending":
            self.tally.wrong.append(f"{tool} answered {told}")
        life.acknowledged[told["execution_id"]] = keys
        await asyncio.sleep(self.chance.uniform(0, PAUSE_S))

    async def _succeeds(self, gateway: GatewayProcess, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = await gateway.call(tool, arguments)
        if result.get("isError"):
            self.tally.wrong.append(f"{tool}: {json.dumps(result)[:500]}")
        return result

    # What is left after a kill

    def _check_file(self) -> None:
        file = self.site.home / "pml.db"
        if self.store != "sqlite" or not file.exists():
            return
        with closing(sqlite3.connect(file)) as connection:
            (said,) = connection.execute("PRAGMA integrity_check").fetchone()
        if said != "ok":
            self.tally.wrong.append(f"the database is corrupt: {said}")

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Store]:
        services = FakeServices(self.store)
        if self.store == "sqlite":
            from pml_store_sqlite import SqliteStore

            store: Store = SqliteStore(SqliteStore.settings_type(path=str(self.site.home / "pml.db")), services)
        else:
            from pml_store_postgres import PostgresStore

            store = PostgresStore(PostgresStore.settings_type(url=self.url), services)
        async with store:
            yield store

    async def _check_rows(self, life: Life, killed_at: float) -> None:
        async with self._opened() as store:
            for id in life.acknowledged:
                record = await store.executions.get(ExecutionId(id), EVERYONE)
                if record is None:
                    self.tally.wrong.append(f"{id} was acknowledged and is not in the store")
                else:
                    self.tally.under_way += record.status in UNDER_WAY
            there = {str(record.request.get("key")) async for record in self._calls_in(store)}
        self._promised |= life.acknowledged
        self.tally.acknowledged += len(life.acknowledged)
        self.tally.answered += len(life.answered)
        self._since = datetime.now(UTC)
        for key in life.answered.keys() - there:
            before_s = killed_at - life.answered[key]
            self.tally.oldest_missing_ms = max(self.tally.oldest_missing_ms, 1000 * before_s)
            if life.full or before_s > life.late_s(killed_at):
                how = "with durability full" if life.full else f"{1000 * before_s:.0f} ms before the kill"
                self.tally.wrong.append(f"{key} was answered {how}, and has no row")
            else:
                self.tally.missing += 1

    async def _calls_in(self, store: Store) -> AsyncIterator[ExecutionRecord]:
        """Of the life that just ended."""
        cursor = None
        while True:
            page = await store.executions.find(
                ExecutionQuery(
                    scope=EVERYONE,
                    since=self._since,
                    target="counting:once",
                    top_level=True,
                    limit=100,
                    cursor=cursor,
                )
            )
            for record in page.items:
                yield record
            if (cursor := page.cursor) is None:
                return

    # What becomes of it

    async def _last_life(self) -> None:
        """Let one gateway go on with what is left, and see how everything ended."""
        await self.site.servers_gone()
        self._configure(full=False)
        gateway = await self._started()
        try:
            async with self._opened() as store:
                await self._all_ended(store, gateway)
                await self._check_ends(store)
        finally:
            await gateway.end()

    async def _all_ended(self, store: Store, gateway: GatewayProcess) -> None:
        """Decide what is in doubt, as somebody would who can see the traces, until nothing is under way."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDED_S):
                while await self._left(store):
                    await self._decide(gateway)
                    await asyncio.sleep(POLL_S)
                return
        self.tally.wrong.append(f"after {ENDED_S:g} s, there is still left: {await self._left(store)}")

    async def _left(self, store: Store) -> list[str]:
        query = ExecutionQuery(scope=EVERYONE, statuses=UNDER_WAY, top_level=True)
        rows = [f"{record.kind} {record.id} {record.status}" for record in (await store.executions.find(query)).items]
        runs = [f"run {run.id} {run.state}" for run in await self.ledger.runs(limit=10_000) if run.outcome is None]
        kept = [f"document {document.key}" for document in (await store.documents.find("core.runs")).items]
        return [*rows, *runs, *kept]

    async def _decide(self, gateway: GatewayProcess) -> None:
        counted = Site.counted_in(self.site.traces)
        for run in await self.ledger.runs(limit=10_000):
            if run.state != "paused":
                continue
            keys = self._promised.get(run.id, [])
            for task in await self.ledger.tasks(run.id):
                if task.in_doubt:
                    self.tally.in_doubt += 1
                    key = keys["ab".index(task.path)] if keys else ""
                    decision = "done" if not keys or counted.get(key) else "repeat"
                    asked = {"run_id": run.id, "path": task.path, "decision": decision, "result": {"key": key}}
                    await self._succeeds(gateway, "decide_durable_task", asked)

    async def _check_ends(self, store: Store) -> None:
        counted = Site.counted_in(self.site.traces)
        for id, keys in self._promised.items():
            record = await store.executions.get(ExecutionId(id), EVERYONE)
            if record is None:
                self.tally.wrong.append(f"{id} is lost")
            elif record.failure is not None and record.failure.code == "execution.lost":
                self.tally.lost_with_reason += 1
                if self.durable and record.kind == "workflow":
                    self.tally.wrong.append(f"{id} is a durable workflow, and was lost: {record.failure.message}")
            elif record.status not in WELL:
                self.tally.wrong.append(f"{id} ended {record.status}: {record.failure}")
            elif [counted.get(key, 0) for key in keys] != [1] * len(keys):
                self.tally.wrong.append(f"{id} ended well; its traces: {[counted.get(key, 0) for key in keys]}")
        self.tally.wrong += [f"{key} ran {times} times" for key, times in counted.items() if times > 1]


async def series(kills: int, *, store: str, seed: int, tell: Callable[[str], None], durable: bool = False) -> Tally:
    """Kill ``kills`` times on ``sqlite``, or on ``postgres`` with a server of our own.

    Raises:
        FileNotFoundError: PostgreSQL is not installed.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pml-kill-")))
        url = durable_url = ""
        if store == "postgres":
            from pml_testing.postgres import cluster

            server = stack.enter_context(cluster())
            url, durable_url = server.database(), server.database()
        killing = Killing(folder, store=store, url=url, durable_url=durable_url, durable=durable, seed=seed)
        return await killing.run(kills, tell)


def main() -> int:
    """Exit status 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--durable", action="store_true", help="workflows go on with the next gateway")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randint(0, 10**6))
    arguments = parser.parse_args()
    began_s = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing of ours lives on

    def tell(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    work = series(arguments.kills, store=arguments.store, seed=arguments.seed, tell=tell, durable=arguments.durable)
    tally = asyncio.run(work)
    took_s = time.monotonic() - began_s
    about = {"store": arguments.store, "seed": arguments.seed, "took_s": round(took_s, 1)}
    sys.stdout.write(json.dumps({**about, **tally.told()}, indent=2) + "\n")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
