"""What a caller's own past adds to a search: the queries of a set asked one by one, after the others were answered.

``python tests/bench/search_past.py --data DIR [--set livemcpbench]``: DIR as for ``search.py``. The past is made of the
other queries: each a search, and after it a call of every tool that it needs. *other tasks*: what belongs to the task
of the query that is asked is left out. *like tasks*: only that very query is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

from search_measures import DEPTH, Set, quality

from pml_hookspecs import ExecutionId, ExecutionRecord, Status
from pml_search import catalogs, index_data
from pml_search.history import SEARCH, PrincipalHistory
from pml_search.piece_vectors import table
from pml_search.ranker import Ranker

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
PASTS = ("none", "other tasks", "like tasks")


def task_of(query: Mapping[str, Any]) -> str:
    """What a query, a step of it or an agent's search for it belong to; of azuremcp, the tool that is wanted."""
    first, _, rest = query["qid"].partition("-")
    return rest.partition("-")[0] if first in ("task", "step", "agent") else first


def past_of(queries: Sequence[Mapping[str, Any]], ids: Mapping[str, str]) -> PrincipalHistory:
    """Of a principal that asked each of these and called what it needs, an hour apart."""
    records: list[ExecutionRecord] = []
    for number, query in enumerate(queries):
        steps = [(SEARCH, {"query": query["query"]}), *((ids[tool], {}) for tool in query["gold"] if tool in ids)]
        for minute, (target, request) in enumerate(steps):
            id, at = ExecutionId(f"{len(records):032d}"), BEGAN + timedelta(hours=number, seconds=10 * minute)
            more: dict[str, Any] = {"kind": "tool", "principal": "ann", "agent": "client", "status": Status.OK}
            records.append(ExecutionRecord(id=id, target=target, request=request, started_at=at, **more))
    return PrincipalHistory(records)


def measured(some: Set, ranker: Ranker, past: str) -> tuple[dict[str, float], int]:
    """Means over the queries, and of how many R@5 is lower than without a past."""
    ids = {id: id for id in ranker.data.ids}
    each, worse = [], 0
    for query in some.queries:
        parts = ranker.prepare(query["query"])
        alone = ranker.rank(parts, DEPTH)
        if past == "none":
            found = alone
        else:
            task = task_of(query)
            others = [one for one in some.queries if one is not query and (past == PASTS[2] or task_of(one) != task)]
            found = ranker.rank(parts, DEPTH, past=past_of(others, ids))
        scores = [quality([ranker.data.ids[at] for at in one.tools.tolist()], query) for one in (alone, found)]
        each.append(scores[1])
        worse += scores[1]["R@5"] < scores[0]["R@5"]
    return {name: fmean(one[name] for one in each) for name in each[0]}, worse


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    sys.stdout.write("| set | past | nDCG@10 | R@1 | R@5 | queries with a lower R@5 |\n|---|---|---|---|---|---|\n")
    for name in given.set or ["livemcpbench"]:
        some = Set.load(given.data / name, 0)
        ranker = Ranker(index_data.build(catalogs.read(some.catalog, sys.stderr.write), table()))
        for past in PASTS:
            means, worse = measured(some, ranker, past)
            figures = " | ".join(f"{means[one]:.3f}" for one in ("nDCG@10", "R@1", "R@5"))
            sys.stdout.write(f"| {name} | {past} | {figures} | {worse} of {len(some.queries)} |\n")


if __name__ == "__main__":
    main()
