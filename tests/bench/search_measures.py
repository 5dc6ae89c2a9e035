"""How good a ranking is, and how well its scores say so."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

DEPTH = 50
"""Tools asked for with each query."""
THRESHOLDS = (0.5, 0.6, 0.7)


@dataclass
class Set:
    """A catalog with queries and the tools that each of them needs."""

    name: str
    catalog: Path
    queries: list[dict]

    @classmethod
    def load(cls, folder, most):
        """The set in ``folder``; at most ``most`` queries, spread over all."""
        with (folder / "queries.jsonl").open(encoding="utf-8") as lines:
            queries = [query for query in map(json.loads, lines) if query["gold"]]
        step = max(1, len(queries) // most) if most else 1
        return cls(folder.name, folder / "catalog.jsonl", queries[::step][: most or None])


def needed(query):
    """The tools that a query needs: each a set of ids of which one will do."""
    return [set(group) for group in query.get("gold_groups") or ([tool] for tool in query["gold"])]


def quality(ids, query):
    """Normalized discounted gain of the first ten, and the shares of needed tools among the first one and five."""
    groups, gain, met = needed(query), 0.0, set()
    for rank, tool in enumerate(ids[:10]):
        new = next((n for n, group in enumerate(groups) if n not in met and tool in group), None)
        if new is not None:
            met.add(new)
            gain += 1 / math.log2(rank + 2)
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(groups))))
    first = [min((ids.index(tool) for tool in group if tool in ids), default=DEPTH) for group in groups]
    return {"nDCG@10": gain / ideal} | {f"R@{k}": sum(rank < k for rank in first) / len(groups) for k in (1, 5)}


@dataclass
class Answers:
    """What a subject answered to the queries of a set, in their order."""

    ids: list[list[str]] = field(default_factory=list)
    scores: list[list[float]] = field(default_factory=list)
    times_ms: list[float] = field(default_factory=list)
    memory_mb: float = math.nan

    def summary(self, queries):
        """Means over the queries, the median time and the memory."""
        each = [quality(ids, query) for ids, query in zip(self.ids, queries, strict=True)]
        means = {name: statistics.fmean(one[name] for one in each) for name in each[0]}
        return means | {"p50": statistics.median(self.times_ms[1:] or [math.nan]), "memory": self.memory_mb}


def ask(command, some):
    """Start ``command`` on the catalog of a set and ask it one query after the other."""
    process = subprocess.Popen(
        [*command, str(some.catalog)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    answers = Answers()
    watching = threading.Thread(target=_watch, args=(process, answers), daemon=True)
    watching.start()
    with process:
        for query in some.queries:
            began = time.perf_counter()
            line = json.dumps({"qid": query["qid"], "query": query["query"], "k": DEPTH})
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            if not answer:
                raise SystemExit(f"{' '.join(command)} ended before it answered {query['qid']} of {some.name}")
            answers.times_ms.append((time.perf_counter() - began) * 1000)
            parsed = json.loads(answer)
            answers.ids.append(parsed["ids"])
            answers.scores.append(parsed.get("scores", []))
        process.stdin.close()
        process.wait(20)
    watching.join(2)
    return answers


def _watch(process, answers):
    """The most memory that the process had; Linux only."""
    path = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        try:
            found = [line.split()[1] for line in path.read_text().splitlines() if line.startswith("VmHWM")]
        except OSError:
            return
        answers.memory_mb = int(found[0]) / 1024 if found else answers.memory_mb
        time.sleep(0.1)


def thresholds(answers, queries):
    """At each threshold: tools kept for a query, the share of needed tools among them, the share of them needed."""
    rows = {}
    for threshold in THRESHOLDS:
        kept = [
            [tool for tool, score in zip(ids, scores, strict=True) if score >= threshold][:20]
            for ids, scores in zip(answers.ids, answers.scores, strict=True)
        ]
        right = [
            sum(any(tool in group for group in needed(query)) for tool in tools)
            for tools, query in zip(kept, queries, strict=True)
        ]
        found = [
            statistics.fmean(any(tool in group for tool in tools) for group in needed(query))
            for tools, query in zip(kept, queries, strict=True)
        ]
        total = sum(map(len, kept))
        rows[threshold] = {
            "kept": total / len(kept),
            "recall": statistics.fmean(found),
            "precision": sum(right) / total if total else math.nan,
        }
    return rows
