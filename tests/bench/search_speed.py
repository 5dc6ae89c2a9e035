"""Time and memory of the index at several sizes. Run by ``tests/bench/search.py``, and by itself for one size."""

from __future__ import annotations

import asyncio
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = (600, 3000, 4000, 20000)
QUERIES = 200
REPEATED = 3
"""Pairs of processes for each size; the least of each number counts, since others use the machine as well."""


def memory_mb():
    """Resident memory of this process [MiB]; not a number where /proc is missing."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return float("nan")
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def entries(catalogs, size):
    """The first ``size`` tools of all catalogs, repeated under other servers until there are enough."""
    from pml_hookspecs import CatalogEntry, ToolId

    lines = [line for path in catalogs for line in path.open(encoding="utf-8")]
    found = []
    while len(found) < size:
        for line in lines[: size - len(found)]:
            tool = json.loads(line)
            definition = {"name": tool["name"], "description": tool.get("description") or ""}
            definition["inputSchema"] = tool.get("input_schema") or {}
            server = f"{tool['server']}{len(found) // len(lines) or ''}"
            digest = hashlib.sha256(f"{server}{line}".encode()).hexdigest()
            found.append(CatalogEntry(ToolId(f"{len(found)}:{tool['name']}"), server, definition, 0, digest))
    return found


async def measure(size, catalogs, queries, cache):
    """What one process sees that builds, or loads, and searches.

    Its memory is that of all of the process but for the definitions of the tools, which the gateway holds anyway.
    """
    from pml_hookspecs import CatalogEntry
    from pml_search.index import Index

    bare = memory_mb()
    tools = entries(catalogs, size)
    before = memory_mb()
    began = time.perf_counter()
    from pml_search import index_data, ranker, snapshot  # noqa: F401 - loads NumPy, which is not the index's time
    from pml_search.languages import languages
    from pml_search.piece_vectors import table
    from pml_search.thesaurus import thesaurus

    for once in (table, languages, thesaurus):
        once()
    once_ms = (time.perf_counter() - began) * 1000
    index = Index(None, Path(cache))
    began = time.perf_counter()
    await index.build(tools, "1")
    build_ms = (time.perf_counter() - began) * 1000
    times = []
    for query in queries:
        began = time.perf_counter()
        await index.search(query, limit=10, min_score=0.0)
        times.append((time.perf_counter() - began) * 1000)
    grown, changed = memory_mb() - before, dict(tools[0].definition, description="Something else.")
    among = frozenset(tool.id for place, tool in enumerate(tools) if place % 10)
    began = time.perf_counter()
    await index.search(queries[0], limit=10, min_score=0.0, among=among)
    view_ms = (time.perf_counter() - began) * 1000
    tools[0] = CatalogEntry(tools[0].id, tools[0].server, changed, 0, "changed")
    began = time.perf_counter()
    await Index.build(index, tools, "2")
    again_ms = (time.perf_counter() - began) * 1000
    return {
        "once": once_ms,
        "build": build_ms,
        "p50": statistics.median(times),
        "p95": statistics.quantiles(times, n=20)[-1],
        "changed": again_ms,
        "view": view_ms,
        "memory": bare + grown,
    }


def _pair(size, catalogs):
    """What a process sees that builds, and one after it that loads."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, str(size), cache, *map(str, catalogs)]
        return [json.loads(subprocess.check_output(command, text=True)) for _ in range(2)]


def rows(catalogs, data):
    """Header and rows of the table."""
    more = [*catalogs, *(path for path in [data / "toucan" / "catalog.jsonl"] if path.exists())]
    made = []
    for size in SIZES:
        pairs = [_pair(size, more) for _ in range(REPEATED)]
        cold, warm = ({key: min(one[key] for one in some) for key in some[0]} for some in zip(*pairs, strict=True))
        cells = [cold["build"], warm["build"], cold["changed"], cold["view"], cold["once"]]
        times = f"{warm['p50']:.1f} / {warm['p95']:.1f}"
        made.append(
            [f"{size:,}", *(f"{cell:,.0f}" for cell in cells), times, f"{cold['memory']:.0f} / {warm['memory']:.0f}"]
        )
    header = [
        "tools", "build, cold [ms]", "from the cache file [ms]", "one tool changed [ms]", "first of a view [ms]",
        "once per process [ms]", "search p50 / p95 [ms]", "memory in all, cold / from the cache [MiB]",
    ]  # fmt: skip
    return header, made


def main():
    size, cache, *paths = sys.argv[1:]
    catalogs = [Path(path) for path in paths]
    lines = [line for path in catalogs[:2] for line in path.with_name("queries.jsonl").open(encoding="utf-8")]
    queries = [json.loads(line)["query"] for line in lines[:QUERIES]]
    print(json.dumps(asyncio.run(measure(int(size), catalogs, queries, cache))))


if __name__ == "__main__":
    main()
