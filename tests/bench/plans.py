"""How often a plan made by search has the tools that people named for a task, and how that fits its confidence.

    .venv/bin/python tests/bench/plans.py --data DIR

``DIR`` has ``catalog.jsonl`` and ``queries.jsonl`` with ``{"query", "gold", "kind": "task"}`` as LiveMCPBench gives
them. Nobody asks a model here, and there is no history: this is what search alone does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pml_catalog.live import LiveCatalog, make_entry
from pml_hookspecs import Session
from pml_search.index import Index
from pml_suggester.planner import confidence_of
from pml_suggester.settings import Settings
from pml_suggester.steps import steps
from pml_testing.fakes import FakeLog

SESSION = Session(key="bench")
LONGEST = 10_000
"""Of an intent [characters]."""
BINS = (0.0, 0.05, 0.2, 0.4, 1.0)
Row = tuple[str, int, float, float, float, float]


def read(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def catalog_of(rows: Sequence[dict[str, Any]]) -> tuple[LiveCatalog, dict[str, str]]:
    """The catalog, and for each of its ids the one that the set uses."""
    made, ids, servers = LiveCatalog(FakeLog(), Index(FakeLog())), {}, {}
    for row in rows:
        definition = {"name": row["name"], "description": row["description"], "inputSchema": row["input_schema"]}
        entry = make_entry(row["server"], definition)
        ids[entry.id] = row["id"]
        servers.setdefault(row["server"], []).append(entry)
    for server, entries in servers.items():
        made.publish(server, entries)
    return made, ids


async def measure(data: Path, settings: Settings) -> tuple[list[Row], list[tuple[str, int, float, float]]]:
    """What plans are like, by how many tools people named; and how often they are right, by their confidence."""
    catalog, ids = catalog_of(read(data / "catalog.jsonl"))
    tasks = [q for q in read(data / "queries.jsonl") if q.get("kind") == "task"]
    found, sure = [], []
    for task in tasks:
        chosen = await steps(task["query"][:LONGEST], catalog, SESSION, settings, {})
        gold, made = set(task["gold"]), {ids[step.entry.id] for step in chosen}
        found.append((gold, made))
        if chosen:
            sure.append((confidence_of(chosen), made <= gold))
    rows = []
    for name, low, high in (("all", 1, 99), ("one tool", 1, 1), ("two or three", 2, 3), ("four and more", 4, 99)):
        part = [(gold, made) for gold, made in found if low <= len(gold) <= high]
        if part:
            n = len(part)
            recall = sum(len(gold & made) / len(gold) for gold, made in part) / n
            precision = sum(len(gold & made) / len(made) if made else 0 for gold, made in part) / n
            exact = sum(gold == made for gold, made in part) / n
            rows.append((name, n, recall, precision, exact, sum(len(made) for _, made in part) / n))
    bins = []
    for low, high in pairwise(BINS):
        inside = [(said, right) for said, right in sure if low <= said < high]
        if inside:
            said = sum(one for one, _ in inside) / len(inside)
            bins.append((f"{low:g} to {high:g}", len(inside), said, sum(right for _, right in inside) / len(inside)))
    return rows, bins


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    arguments = parser.parse_args()
    rows, bins = asyncio.run(measure(arguments.data, Settings()))
    print("| tasks that need | tasks | step recall | precision | exact set | steps in a plan |")
    print("|---|---|---|---|---|---|")
    for name, n, *shares in rows:
        print(f"| {name} | {n} | {' | '.join(f'{share:.2f}' for share in shares)} |")
    print("\n| confidence | plans | mean confidence | all tools right |")
    print("|---|---|---|---|")
    for name, n, *shares in bins:
        print(f"| {name} | {n} | {' | '.join(f'{share:.2f}' for share in shares)} |")


if __name__ == "__main__":
    main()
