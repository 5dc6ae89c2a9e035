"""Feed the stdio connection millions of spoilt messages and compare what it makes of them with a model.

    python tests/soak/fuzz_stdio.py --inputs 10_000_000

The traffic and the model are those of pml-kit's own tests. A finding ends the run: the stream is written to a file,
with the seed that makes it again, and the exit status is 1. Needs rich for the progress bar.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import time
import traceback
from collections import Counter
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from pml_hookspecs import RpcError
from pml_kit.jsonrpc.streams import StreamLimits

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

sys.path.insert(0, str(Path(__file__).parents[2] / "plugins" / "pml-kit" / "tests"))
from traffic import LIMIT_BYTES, Rig, stream

ANSWERS, NOTES = 8, 24
"""Spoilt inputs of one round."""
ROUND = ANSWERS + NOTES
ROUNDS_A_CONNECTION = 500
WARM = 0.1
"""Part of the run after which memory should have found its level."""
GROWTH_AT_MOST = 1.1
FINDING = 1


class Finding(NamedTuple):
    """An input that the connection and the model do not agree on."""

    seed: int
    data: bytes
    trace: str


class Report(NamedTuple):
    """What one process has done so far."""

    inputs: int
    resident_mb: float
    kinds: Counter[str]
    finding: Finding | None = None


def resident_mb() -> float:
    """Resident memory of this process [MB]."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def outcome_of(task: asyncio.Task[Any]) -> str:
    """What became of a request, in a word."""
    if task.cancelled():
        return "no answer"
    failure = task.exception()
    if failure is None:
        return "result"
    return "error" if isinstance(failure, RpcError) else "refused"


async def one_round(rig: Rig, seed: int, kinds: Counter[str]) -> Finding | None:
    """Ask, answer with spoilt traffic, compare."""
    random = Random(seed)
    asked = await rig.ask(ANSWERS + 1)
    data = stream(random, list(asked)[:-1], NOTES)
    try:
        await rig.round(random, asked, data, 1 + random.randrange(40))
    except Exception:
        return Finding(seed, data, traceback.format_exc())
    kinds.update(map(outcome_of, asked.values()))
    kinds["notification"] += len(rig.connection.handler.notes)
    return None


async def work(first_seed: int, inputs: int, tell: Any) -> None:
    """Do ``inputs`` inputs and report about every second."""
    kinds: Counter[str] = Counter()
    told = time.monotonic()
    rig = Rig(StreamLimits(max_message_bytes=LIMIT_BYTES))
    for number in range(-(-inputs // ROUND)):
        if number % ROUNDS_A_CONNECTION == 0:
            kinds.update(rig.connection.counters)
            rig.connection.end(None)
            rig = Rig(StreamLimits(max_message_bytes=LIMIT_BYTES))
        finding = await one_round(rig, first_seed + number, kinds)
        if finding is not None:
            tell(Report(number * ROUND, resident_mb(), kinds, finding))
            return
        if time.monotonic() - told > 1:
            told = time.monotonic()
            tell(Report(number * ROUND, resident_mb(), kinds.copy()))
    kinds.update(rig.connection.counters)
    gc.collect()
    tell(Report(inputs, resident_mb(), kinds))


def job(number: int, first_seed: int, inputs: int, reports: Queue[tuple[int, Report]]) -> None:
    """One process."""
    asyncio.run(work(first_seed, inputs, lambda report: reports.put((number, report))))


def run(inputs: int, seed: int, jobs: int, console: Console) -> tuple[dict[int, list[Report]], Finding | None]:
    """Run all processes to their end, or until one finds something."""
    context = get_context("spawn")
    reports: Queue[tuple[int, Report]] = context.Queue()
    share = inputs // jobs
    # Far enough apart that no two processes ever use one seed.
    processes = [context.Process(target=job, args=(n, seed + n * 10**12, share, reports)) for n in range(jobs)]
    seen: dict[int, list[Report]] = {n: [] for n in range(jobs)}
    columns = (TextColumn("fuzzing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("fuzzing", total=share * jobs)
        for process in processes:
            process.start()
        try:
            while any(not of or of[-1].inputs < share for of in seen.values()):
                number, report = reports.get(timeout=120)
                seen[number].append(report)
                progress.update(bar, completed=sum(of[-1].inputs for of in seen.values() if of))
                if report.finding is not None:
                    return seen, report.finding
        finally:
            for process in processes:
                process.terminate()
                process.join()
    return seen, None


def grown(reports: list[Report]) -> float:
    """How much more memory one process used at most at the end than once it was warm, as a ratio."""
    warm = [r.resident_mb for r in reports[: max(1, int(len(reports) * WARM))]]
    return max(r.resident_mb for r in reports) / max(warm)


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000, help="spoilt messages (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first round (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: %(default)s)")
    parser.add_argument("--findings", type=Path, default=Path(), help="folder for what is found (default: this one)")
    given = parser.parse_args()
    console = Console()
    start = time.monotonic()
    seen, finding = run(given.inputs, given.seed, given.jobs, console)
    took_s = time.monotonic() - start
    kinds: Counter[str] = sum((of[-1].kinds for of in seen.values() if of), Counter())
    done = sum(of[-1].inputs for of in seen.values() if of)
    table = Table("what", "how many", title=f"{done} inputs in {took_s:.0f} s ({done / took_s:.0f}/s)")
    for kind, count in kinds.most_common():
        table.add_row(kind, str(count))
    console.print(table)
    growth = max(grown(of) for of in seen.values() if of)
    most_mb = max(r.resident_mb for of in seen.values() for r in of)
    console.print(f"memory: {most_mb:.1f} MB at most, {growth:.3f} of what it was when warm")
    if finding is not None:
        file = given.findings / f"finding-{finding.seed}.bin"
        file.write_bytes(finding.data)
        console.print(finding.trace, f"seed {finding.seed}: the stream is in {file}", style="red", markup=False)
        return FINDING
    return FINDING if growth > GROWTH_AT_MOST else 0


if __name__ == "__main__":
    sys.exit(main())
