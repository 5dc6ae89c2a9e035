"""Kill gateways in the middle of durable plans, have others go on, and count what every task did.

    python tests/kill/killing.py --kills 200 --database sqlite
    python tests/kill/killing.py --kills 200 --database postgres

On SQLite the gateway that was killed is started again. On PostgreSQL there are two: the one that was killed stays dead,
and the other goes on with its plans.

A plan has 20 tasks in 5 layers. A third of the tools must not be repeated, a third say that they may be, and a third
that they only read; each call leaves a trace on the disk. What is checked:

- no task whose outcome was kept before a kill leaves another trace after it;
- no task that must not be repeated leaves two traces, ever;
- every task of every plan has left a trace in the end, and the plan has ended well;
- a task in doubt is asked for, and is one that must not be repeated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway_process import GatewayProcess, KilledError, Site

from pml_executor_dbos.ledger import Ledger, RunRow
from pml_executor_dbos.settings import Settings

TASKS, WIDTH = 20, 4
TOOLS = ("once", "again", "look")
MOST_KILLS_OF_A_PLAN = 4
GOES_ON_S = 60.0
POLL_S = 0.005
TASK_S, START_S = 0.04, 4.0
"""Longest that a task takes, and about how long a gateway takes until it goes on with a plan [s]."""
ANYWHERE = 0.15
"""Part of the kills that do not wait until a plan is under way."""


def plan(name: str, chance: random.Random) -> dict[str, Any]:
    """Arguments of ``execute_workflow``."""
    tasks = []
    for i in range(TASKS):
        layer = i // WIDTH
        above = [f"t{j}" for j in range((layer - 1) * WIDTH, layer * WIDTH)] if layer else []
        arguments = {
            "key": f"{name}/t{i}",
            "before_ms": chance.randint(0, 20),
            "after_ms": chance.randint(0, 20),
        }
        tool = f"counting:{TOOLS[i % len(TOOLS)]}"
        depends_on = chance.sample(above, chance.randint(1, WIDTH)) if above else []
        tasks.append({"id": f"t{i}", "tool": tool, "arguments": arguments, "depends_on": depends_on})
    return {"intent": name, "workflow": {"tasks": tasks, "durable": True}}


@dataclass
class Tally:
    """What happened, and what must not have."""

    kills: int = 0
    amid: int = 0
    """Kills at which some of a plan's tasks were kept, and some not."""
    plans: int = 0
    in_doubt: int = 0
    repeated_freely: int = 0
    """Traces beyond the first of tasks that may be repeated and were under way at a kill."""
    went_on_s: list[float] = field(default_factory=list)
    """From a start, or where another gateway took over from the kill, until the run was claimed [s]."""
    wrong: list[str] = field(default_factory=list)

    def told(self) -> dict[str, Any]:
        """As JSON."""
        waits = sorted(self.went_on_s)
        return {
            "kills": self.kills,
            "amid_a_plan": self.amid,
            "plans": self.plans,
            "in_doubt": self.in_doubt,
            "repeated_freely": self.repeated_freely,
            "went_on_p50_s": round(waits[len(waits) // 2], 2) if waits else None,
            "wrong": self.wrong,
        }


class Killing:
    """One series of kills on one database."""

    def __init__(self, folder: Path, *, database: str, two: bool, seed: int) -> None:
        self.folder, self.two = folder, two
        self.chance = random.Random(seed)
        self.tally = Tally()
        self.database = database or str(folder / "durable.db")
        self.traces = folder / "traces"
        self.ledger = Ledger(Settings(database=self.database))
        self._sites = 0
        self._kept_then: dict[str, int] = {}

    def site(self) -> Site:
        """For a gateway that starts anew."""
        self._sites += 1
        return Site(self.folder / f"site{self._sites}", database=self.database, traces=self.traces)

    async def run(self, kills: int, tell: Callable[[str], None], *, most_s: float) -> Tally:
        """Kill until there were so many, or until it took so long [s]."""
        until_s = time.monotonic() + most_s
        survivor = await GatewayProcess(self.site()).start() if self.two else None
        site = self.site()
        try:
            if survivor is not None:
                await survivor.hello()
            while self.tally.kills < kills and time.monotonic() < until_s:
                self.tally.plans += 1
                name = f"plan{self.tally.plans}"
                await self._plan(name, site, survivor, min(MOST_KILLS_OF_A_PLAN, kills - self.tally.kills))
                tell(f"{name}: {self.tally.kills} kills, {self.tally.in_doubt} in doubt, wrong: {self.tally.wrong}")
        finally:
            if survivor is not None:
                await survivor.end()
            await self.ledger.close()
        return self.tally

    async def _plan(self, name: str, site: Site, survivor: GatewayProcess | None, most_kills: int) -> None:
        victim = await GatewayProcess(site).start()
        await victim.hello()
        _, answer = victim.begin("tools/call", {"name": "execute_workflow", "arguments": plan(name, self.chance)})
        if self.chance.random() < ANYWHERE:
            await asyncio.sleep(self.chance.uniform(0, START_S))
        else:
            await self._some_way_into(name)
        await self._kill(name, victim)
        if survivor is not None:
            await self._to_the_end(name, survivor)
        else:
            await self._restarted(name, site, self.chance.randint(0, most_kills - 1))
        if not answer.done():
            answer.cancel()
        elif not answer.cancelled() and not isinstance(answer.exception(), KilledError):
            answer.result()
        self._check(name)

    async def _restarted(self, name: str, site: Site, more_kills: int) -> None:
        """Go on with the same gateway, which may be killed again while it does."""
        while True:
            began_s = time.monotonic()
            gateway = await GatewayProcess(site).start()
            run = await self._run_of(name)
            if more_kills and run is not None and run.state != "ended":
                more_kills -= 1
                if self.chance.random() < ANYWHERE:
                    await asyncio.sleep(self.chance.uniform(0, START_S))
                else:
                    if run.state == "paused":
                        await gateway.hello()
                        await self._decide(name, run, gateway)
                        began_s = time.monotonic()
                    await self._claimed(name, run.changed_at, began_s)
                    await self._some_way_into(name)
                await self._kill(name, gateway)
                continue
            await gateway.hello()
            await self._to_the_end(name, gateway)
            await gateway.end()
            return

    async def _kill(self, name: str, gateway: GatewayProcess) -> None:
        await gateway.kill()
        self.tally.kills += 1
        run = await self._run_of(name)
        if run is None:
            return
        kept = {f"{name}/{task.path}" for task in await self.ledger.tasks(run.id) if task.state == "ended"}
        self.tally.amid += 0 < len(kept) < TASKS
        counted = Site.counted_in(self.traces)
        for key in kept:
            self._kept_then.setdefault(key, counted.get(key, 0))

    async def _run_of(self, name: str) -> RunRow | None:
        return next((run for run in await self.ledger.runs(limit=5) if run.intent == name), None)

    async def _until(self, name: str, holds: Callable[[RunRow | None], bool]) -> RunRow | None:
        async with asyncio.timeout(GOES_ON_S):
            while not holds(run := await self._run_of(name)):  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(POLL_S)
        return run

    async def _some_way_into(self, name: str) -> None:
        """Wait until so many tasks of the plan were begun, and a little more."""
        enough = self.chance.randint(1, TASKS)

        async def holds() -> bool:
            run = await self._run_of(name)
            over = run is not None and run.state in ("paused", "ended")
            return over or (run is not None and len(await self.ledger.tasks(run.id)) >= enough)

        async with asyncio.timeout(GOES_ON_S):
            while not await holds():  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(POLL_S)
        await asyncio.sleep(self.chance.uniform(0, TASK_S))

    async def _claimed(self, name: str, since: int, began_s: float) -> None:
        await self._until(name, lambda run: run is not None and run.changed_at > since and run.state != "ready")
        self.tally.went_on_s.append(time.monotonic() - began_s)

    async def _to_the_end(self, name: str, gateway: GatewayProcess) -> None:
        """Decide what is in doubt, as somebody would who can see what the tools did, until the plan has ended."""
        if await self._run_of(name) is None:  # killed before it was accepted: as if never asked for
            result = await gateway.call("execute_workflow", plan(name, self.chance))
            if result.get("isError"):
                self.tally.wrong.append(f"{name}: {result}")
            return
        while True:
            run = await self._until(name, lambda run: run is not None and run.state in ("paused", "ended"))
            assert run is not None
            if run.state == "ended":
                if run.outcome is None or run.outcome.status != "ok":
                    self.tally.wrong.append(f"{name} ended {run.outcome}")
                return
            await self._decide(name, run, gateway)

    async def _decide(self, name: str, run: RunRow, gateway: GatewayProcess) -> None:
        await gateway.site.servers_gone()
        counted = Site.counted_in(self.traces)
        for task in await self.ledger.tasks(run.id):
            if not task.in_doubt:
                continue
            self.tally.in_doubt += 1
            if task.target != "counting:once":
                self.tally.wrong.append(f"{name}/{task.path} ({task.target}) may be repeated and was asked about")
            key = f"{name}/{task.path}"
            decision = "done" if counted.get(key) else "repeat"
            asked = {"run_id": run.id, "path": task.path, "decision": decision, "result": {"key": key}}
            result = await gateway.call("decide_durable_task", asked)
            if result.get("isError"):
                self.tally.wrong.append(f"{key}: {result}")

    def _check(self, name: str) -> None:
        counted = Site.counted_in(self.traces)
        for i in range(TASKS):
            key, tool = f"{name}/t{i}", TOOLS[i % len(TOOLS)]
            times, kept = counted.get(key, 0), self._kept_then.get(key)
            if times == 0:
                self.tally.wrong.append(f"{key} is lost")
            if kept is not None and times != kept:
                self.tally.wrong.append(f"{key} was completed and ran again: {kept} then, {times} now")
            if tool == "once" and times > 1:
                self.tally.wrong.append(f"{key} must not be repeated and ran {times} times")
            self.tally.repeated_freely += max(0, times - 1)


async def series(
    kills: int, *, database: str, seed: int, tell: Callable[[str], None], most_s: float = math.inf
) -> Tally:
    """Kill ``kills`` times on ``sqlite``, or on ``postgres`` with a server of our own.

    Raises:
        FileNotFoundError: PostgreSQL is not installed.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pml-kill-")))
        url = ""
        if database == "postgres":
            from pml_testing.postgres import cluster

            url = stack.enter_context(cluster()).database()
        killing = Killing(folder, database=url, two=database == "postgres", seed=seed)
        return await killing.run(kills, tell, most_s=most_s)


def main() -> int:
    """Exit status 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randint(0, 10**6))
    parser.add_argument("--most-s", type=float, default=math.inf, help="begin no further plan after so long [s]")
    arguments = parser.parse_args()
    began_s = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing of ours lives on

    def tell(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    work = series(
        arguments.kills,
        database=arguments.database,
        seed=arguments.seed,
        tell=tell,
        most_s=arguments.most_s,
    )
    tally = asyncio.run(work)
    about = {"database": arguments.database, "seed": arguments.seed, "took_s": round(time.monotonic() - began_s, 1)}
    sys.stdout.write(json.dumps({**about, **tally.told()}, indent=2) + "\n")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
