"""What durable engines keep when their worker is killed: docs/design/0031.

    python tests/bench/engines/measure.py dbos|procrastinate|pgqueuer|absurd [--database sqlite] [--kills 200]
        [--python PYTHON] [--schema absurd.sql]

The engine has plans of five tasks to run. Its worker is killed (SIGKILL) at a random moment and started again, until
there were so many kills; then it may finish. PYTHON has the engine installed; PML needs none but DBOS. Absurd's tables
come from a file of its repository, and not with its package.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

from plan import TASKS

from pml_testing.postgres import cluster

FOLDER = Path(__file__).parent
WIDTH, TASK_S, MOST_WAIT_S = 4, 0.02, 120.0
COST_PLANS = 60


class Engine:
    """One engine on one empty database."""

    def __init__(self, arguments: argparse.Namespace, url: str, folder: Path) -> None:
        self._python, self._schema = arguments.python, arguments.schema
        self._script = FOLDER / f"with_{arguments.engine}.py"
        self._url, self.log = url, folder / "log"
        self.log.touch()

    def _command(self, verb: str, count: int, width: int, took_s: float) -> list[str]:
        given = [verb, self._url, self.log, count, width, took_s, self._schema]
        return [self._python, str(self._script), *map(str, given)]

    def submit(self, plans: int) -> None:
        """Have so many plans to run."""
        subprocess.run(self._command("submit", plans, 1, 0), check=True, stderr=subprocess.DEVNULL)

    def worker(self, width: int, took_s: float) -> subprocess.Popen[bytes]:
        """A worker that is at work."""
        return subprocess.Popen(self._command("work", 0, width, took_s), stderr=subprocess.DEVNULL)

    def lines(self) -> list[tuple[int, str, int, str]]:
        """When, plan, task, what."""
        rows = (line.split() for line in self.log.read_text().splitlines())
        return [(int(row[0]), row[2], int(row[3]), row[4]) for row in rows]

    def ended(self) -> int:
        """Plans whose last task has ended."""
        return len({plan for _, plan, task, what in self.lines() if task == TASKS - 1 and what == "e"})

    def wait(self, plans: int) -> bool:
        """Until so many have ended; False when for a while nothing happens any more."""
        size, since = -1, time.monotonic()
        while self.ended() < plans:
            if self.log.stat().st_size != size:
                size, since = self.log.stat().st_size, time.monotonic()
            elif time.monotonic() - since > MOST_WAIT_S:
                return False
            time.sleep(0.1)
        return True


def cost(engine: Engine) -> float:
    """Of a task that does nothing, one after the other [ms]."""
    engine.submit(COST_PLANS)
    worker = engine.worker(1, 0)
    try:
        if not engine.wait(COST_PLANS):
            raise SystemExit("the worker does nothing")
    finally:
        worker.kill()
        worker.wait()
    taken = [at for at, *_ in engine.lines()]
    return (taken[-1] - taken[0]) / 1e6 / (COST_PLANS * TASKS)


def killed(engine: Engine, kills: int) -> list[int]:
    """Kill the worker so often; when [monotonic ns]."""
    moments: list[int] = []
    while len(moments) < kills:
        size = engine.log.stat().st_size
        worker = engine.worker(WIDTH, TASK_S)
        try:
            deadline = time.monotonic() + MOST_WAIT_S
            while engine.log.stat().st_size == size:
                if time.monotonic() > deadline:
                    raise SystemExit(f"nothing left to do after {len(moments)} kills: submit more plans")
                time.sleep(0.005)
            time.sleep(random.uniform(0, 0.3))
        finally:
            worker.kill()
            worker.wait()
        moments.append(time.monotonic_ns())
    return moments


def report(engine: Engine, plans: int, moments: list[int]) -> None:
    """Print what became of the plans."""
    begun, done = defaultdict(list), defaultdict(list)
    of_plan: dict[str, list[int]] = defaultdict(list)
    for at, plan, task, what in engine.lines():
        (begun if what == "b" else done)[plan, task].append(at)
        of_plan[plan].append(at)
    cut = sum(len(at) - len(done[key]) for key, at in begun.items())
    again = sum(1 for key, at in begun.items() if any(start > end for start in at for end in done[key][:1]))
    recovered = []
    for moment in moments:
        for plan, at in of_plan.items():
            after = [one for one in at if one > moment]
            ended = done[plan, TASKS - 1] and done[plan, TASKS - 1][0] < moment
            if (
                at[0] < moment
                and after
                and not ended
                and any(one > moment - 1_000_000_000 for one in at if one < moment)
            ):
                recovered.append((after[0] - moment) / 1e9)
    print(f"  kills {len(moments)}, plans {plans}, lost {plans - engine.ended()}, tasks cut and repeated {cut}")
    print(f"  tasks repeated after their end {again}")
    if recovered:
        recovered.sort()
        print(
            f"  from the kill to the next task of an open plan [s]: median {statistics.median(recovered):.2f}, "
            f"95 % {recovered[int(len(recovered) * 0.95)]:.2f}, most {recovered[-1]:.2f} ({len(recovered)} plans)"
        )


def main(arguments: argparse.Namespace) -> None:
    """Print one engine's numbers."""
    with ExitStack() as stack:
        servers = None if arguments.database == "sqlite" else stack.enter_context(cluster(durable=True))
        for part in ("cost", "kills"):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            url = f"sqlite:///{folder}/bench.db" if servers is None else servers.database()
            engine = Engine(arguments, url, folder)
            if part == "cost":
                glue = sum(1 for line in engine._script.read_text().splitlines() if line.strip())
                print(
                    f"{arguments.engine} on {arguments.database}: {cost(engine):.2f} ms per task, {glue} lines",
                    flush=True,
                )
                continue
            engine.submit(arguments.plans)
            moments = killed(engine, arguments.kills)
            worker = engine.worker(WIDTH, TASK_S)
            try:
                engine.wait(arguments.plans)
            finally:
                worker.kill()
                worker.wait()
            report(engine, arguments.plans, moments)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=["dbos", "procrastinate", "pgqueuer", "absurd"])
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="postgres")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--plans", type=int, default=1500)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--schema", default="")
    main(parser.parse_args())
