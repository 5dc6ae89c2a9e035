"""How much of what is wrong with plans a pre-flight finds, how often it cries wolf, and how long it takes.

    .venv/bin/python tests/bench/preflight [--plans 1000] [--sandboxes] [--data DIR] [--write-docs] [--check]

Plans are made by chance over some seven hundred made-up tools, always the same ones for the same ``--seed``. With
``--data``, plans are also made over each ``catalog.jsonl`` below DIR (one JSON object per line: ``server``, ``name``,
``description``, ``input_schema``). With ``--sandboxes``, code of the made-up ones is checked by Monty and Deno, which
takes minutes, and there are faults that only they can find. ``--check`` ends with 1 when less than 95 % of the faults
are found, more than 2 % of the correct plans raise an alarm, or a plan of twenty steps takes 50 ms or more of a
processor, to examine or to rehearse.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from catalogs import made_up, of_files
from measuring import Bench, Result, Times, rehearsals_ms, times

LEAST_FOUND, MOST_ALARMS, MOST_MS = 0.95, 0.02, 50.0
DOCS = Path(__file__).resolve().parents[3] / "docs" / "preflight.md"
TOOLS = 700


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def kinds_table(result: Result) -> str:
    """Found by kind."""
    rows = [f"| {name} | {k.planted} | {k.found} | {percent(k.found, k.planted)} |" for name, k in result.kinds.items()]
    total = f"| **all** | {result.planted} | {result.found} | {percent(result.found, result.planted)} |"
    return "\n".join(["| fault | planted | found | |", "|---|---:|---:|---:|", *rows, total])


def sets_table(results: dict[str, Result]) -> str:
    """Found and false alarms by catalog."""
    rows = [
        f"| {name} | {r.tools} | {r.planted} | {percent(r.found, r.planted)} | {r.correct} | "
        f"{percent(r.alarmed, r.correct)} | {percent(r.beside, r.planted)} |"
        for name, r in results.items()
    ]
    head = "| tools | of them | faults | found | correct plans | with a false alarm | faults with another beside |"
    return "\n".join([head, "|---|---:|---:|---:|---:|---:|---:|", *rows])


def times_table(one: Times) -> str:
    """How long it takes."""
    row = f"| {one.steps} | {one.tools} | {one.executions} | {one.recordings} | {one.first_ms:.0f} | "
    head = (
        "| steps | tools | executions | recordings | first [ms] | median [ms] | worst [ms] | processor, median [ms] |"
    )
    last = f"{one.median_ms:.1f} | {one.worst_ms:.1f} | {one.processor_ms:.1f} |"
    return "\n".join([head, "|---:|---:|---:|---:|---:|---:|---:|---:|", f"{row}{last}"])


def write(tables: dict[str, str]) -> None:
    """Put the tables between their marks in the documentation."""
    text = DOCS.read_text(encoding="utf-8")
    for name, table in tables.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        before, _, rest = text.partition(begin)
        after = rest.partition(end)[2]
        text = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    DOCS.write_text(text, encoding="utf-8")


async def main() -> int:
    parser = argparse.ArgumentParser(prog="preflight", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plans", type=int, default=1000, help="correct plans, and about as many with a fault")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--data", type=Path, metavar="DIR", help="catalogs to make plans over, too")
    parser.add_argument("--sandboxes", action="store_true", help="have code checked by what really runs it, too")
    parser.add_argument("--write-docs", action="store_true", help="write the tables into docs/preflight.md")
    parser.add_argument("--check", action="store_true", help="end with 1 when the bounds are not kept")
    parser.add_argument("--show", type=int, default=10, help="examples of what went wrong")
    given = parser.parse_args()
    own = made_up(TOOLS, given.seed)
    results = {"made up": await Bench(own, given.seed).measure(given.plans, sandboxes=given.sandboxes)}
    if given.data is not None:
        for name, entries in of_files(given.data, TOOLS):
            results[name] = await Bench(entries, given.seed).measure(given.plans, sandboxes=False)
    taken, rehearsed_ms = await times(own[:TOOLS], given.seed), await rehearsals_ms()
    tables = {"kinds": kinds_table(results["made up"]), "times": times_table(taken)}
    if given.data is not None:
        tables["catalogs"] = sets_table(results)
    print(*tables.values(), f"Twenty rehearsed calls take {rehearsed_ms:.1f} ms of a processor.", sep="\n\n")
    for name, result in results.items():
        for example in result.examples[: given.show]:
            print(f"{name}: {example}")
    if given.write_docs:
        write(tables)
    kept = max(taken.processor_ms, rehearsed_ms) < MOST_MS and all(
        r.found >= LEAST_FOUND * r.planted and r.alarmed <= MOST_ALARMS * r.correct for r in results.values()
    )
    print("bounds kept" if kept else "BOUNDS NOT KEPT")
    return 0 if kept or not given.check else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
