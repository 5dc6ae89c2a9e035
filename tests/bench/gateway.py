"""Measures PML next to no gateway, to the least that a gateway can be, and to FastMCP.

    python tests/bench/gateway.py [--rounds N] [--quick] [--subjects direct,relay,fastmcp,pml] [--json FILE]
                                  [--fastmcp-python PATH]

Run by hand, on a machine that has nothing else to do: see docs/performance.md. The exit status is 1 when anything
could not be measured because it did not do what it should.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import processes
import table
from client import BenchError
from measures import PARTS, QUICK, Effort, Part, start
from subjects import Subject, subjects

NAMES = ("direct", "relay", "fastmcp", "pml")
PART_S = 180.0
"""Longest that one part of one subject may take."""


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, metavar="N", help="how often all is measured; 5, with --quick 1")
    parser.add_argument("--quick", action="store_true", help="short rounds, to see that it works; not for figures")
    parser.add_argument("--subjects", default=",".join(NAMES), help="what to measure, by name: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write all numbers of all rounds")
    parser.add_argument("--fastmcp-python", metavar="PATH", help="a Python that has fastmcp 4 or newer")
    given = parser.parse_args()
    given.subjects = given.subjects.split(",")
    if unknown := set(given.subjects) - set(NAMES):
        parser.error(f"--subjects: no such subject: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    given.rounds = given.rounds or (1 if given.quick else 5)
    return given


class Run:
    """All rounds of all subjects."""

    def __init__(self, chosen: Sequence[Subject], effort: Effort) -> None:
        self._subjects, self._effort = chosen, effort
        self.rounds: list[table.Round] = []
        self.failures: list[str] = []

    async def warm_up(self) -> None:
        """Start everything once, so that byte code and files are where they will be in every round."""
        for subject in self._subjects:
            await self._measure("warm-up", start, subject)

    async def round(self) -> None:
        """One round: each part for all subjects before the next part, and each time another subject first."""
        number = len(self.rounds)
        first = number % len(self._subjects)
        order = [*self._subjects[first:], *self._subjects[:first]]
        row: dict[str, dict[str, float]] = {subject.name: {} for subject in self._subjects}
        for part in PARTS:
            for subject in order:
                row[subject.name] |= await self._measure(f"round {number + 1}", part, subject)
        self.rounds.append(table.derived(row))

    async def _measure(self, when: str, part: Part, subject: Subject) -> dict[str, float]:
        began, problem, measured = time.perf_counter(), "", {}
        with tempfile.TemporaryDirectory(prefix="pml-bench-") as folder:
            try:
                async with asyncio.timeout(PART_S):
                    measured = await part(subject, Path(folder), self._effort)
            except TimeoutError:
                problem = f"not done within {PART_S:.0f} s"
            except (BenchError, OSError, LookupError, TypeError, ValueError) as exc:
                problem = f"{type(exc).__name__}: {exc}"
        about = f"{when}, {part.__name__} of {subject.name}"
        print(f"{about}: {time.perf_counter() - began:.1f} s {problem and 'FAILED'}", file=sys.stderr, flush=True)
        if problem:
            self.failures.append(f"{about}: {problem}")
        return measured


def machine() -> str:
    """What it ran on, as far as it matters and tells nothing about whose it is."""
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, {platform.python_implementation()}"


def report(run: Run, known: Mapping[str, Subject], chosen: Sequence[str]) -> str:
    """All that there is to tell, in Markdown."""
    lines = [f"{len(run.rounds)} rounds on {machine()}; median (lowest..highest round)", ""]
    for name in chosen:
        absent = known[name].absent
        lines.append(f"- {name}: {known[name].about}{f'. **Absent, not measured**: {absent}' if absent else ''}")
    if not processes.AVAILABLE:
        lines.append("- CPU time and memory were not measured: there is no /proc here")
    lines += ["", table.render(run.rounds, [name for name in chosen if not known[name].absent])]
    if run.failures:
        lines += ["", "**Failures**; nothing above counts:", "", *(f"- {failure}" for failure in run.failures)]
    return "\n".join(lines)


def everything(run: Run, known: Mapping[str, Subject], effort: Effort) -> dict[str, Any]:
    """The same for programs."""
    about = {name: f"absent: {one.absent}" if one.absent else one.about for name, one in known.items()}
    return {
        "machine": machine(),
        "effort": dataclasses.asdict(effort),
        "subjects": about,
        "units": {measure.key: measure.title for measure in table.MEASURES},
        "rounds": run.rounds,
        "failures": run.failures,
    }


async def main() -> int:
    """Measure and print; the exit status."""
    given = arguments()
    known = subjects(given.fastmcp_python)
    effort = QUICK if given.quick else Effort()
    chosen = [known[name] for name in given.subjects if not known[name].absent]
    if not chosen:
        print(*(f"{name}: absent: {known[name].absent}" for name in given.subjects), sep="\n", file=sys.stderr)
        return 1
    run = Run(chosen, effort)
    await run.warm_up()
    for _ in range(given.rounds):
        await run.round()
    print(report(run, known, given.subjects))
    if given.json is not None:
        text = json.dumps(everything(run, known, effort), indent=1, ensure_ascii=False)
        given.json.write_text(text + "\n", encoding="utf-8")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
