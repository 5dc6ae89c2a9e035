"""``pml eval --compare-embedder``: what the configured embedder adds to the search on this catalog."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments
from pml_kit.offers import EMBEDDER
from pml_kit.terminal import print_json

from . import queries, scores
from .counting import counter
from .evaluation import DEPTH, METRICS, SEARCH, Row, find, print_rows, search
from .modes import Sizes
from .output import say

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import Services
    from pml_kit.offers import Embedder

    from .queries import Queries, Query

WITHOUT, WITH = "without", "with"
OFF = "plugins.search.embedder_weight=0"
"""How the search is told to do without; a search cannot be asked to."""
PROBES = 5
"""Queries by which it is noticed that the search uses the embedder."""
POLL_S = 0.2


async def compare(arguments: argparse.Namespace, services: Services) -> int:
    """Print both rows side by side; the exit status.

    Raises:
        InvalidArguments: There is no embedder, it fails, or the search does not use it.
    """
    embedder = services.find(EMBEDDER)
    if embedder is None:
        raise InvalidArguments(
            "--compare-embedder: no embedder is configured. Install pml-search-embeddings and set folder or url in "
            "[plugins.embeddings]; pml plugins doctor says whether it works."
        )
    if arguments.floor or arguments.only is not None:
        raise InvalidArguments("--compare-embedder measures two rows of its own: leave out --floor and --only.")
    asked = await queries.gather(services, file=arguments.queries, source=arguments.source, limit=arguments.limit)
    said = await _without(arguments, asked.items)
    before = _row_of(said["rows"][0])
    began = time.perf_counter()
    await _warmed(embedder, asked.items[0].text)
    await _in_use(services, said["details"][:PROBES], arguments.wait)
    waited_s = time.perf_counter() - began
    after = replace(await search(services, Sizes(services, counter(arguments.tokenizer)), asked.items), name=WITH)
    changes = _changes(said["details"], after, asked.items)
    if arguments.json:
        print_json(
            {
                "queries": {"source": asked.source, "count": len(asked.items)},
                "embedder": embedder.name,
                "ready_s": round(waited_s, 3),
                "rows": [before.as_json(), after.as_json()],
                **changes,
            }
        )
    else:
        _show(embedder, asked, before, after, changes)
    return 0


async def _without(arguments: argparse.Namespace, asked: Sequence[Query]) -> Any:
    """What ``pml eval`` says of the search in a gateway that does without the embedder."""
    with tempfile.TemporaryDirectory(prefix="pml-eval-") as folder:
        file = Path(folder) / "queries.jsonl"
        file.write_text("".join(f"{json.dumps(_line(query))}\n" for query in asked), encoding="utf-8")
        words = ["eval", "--json", "--details", f"--only={SEARCH}", f"--queries={file}", f"--limit={len(asked)}"]
        words += [f"--tokenizer={arguments.tokenizer}", *options(arguments), f"--set={OFF}"]
        return json.loads(await pml(*words))


def _line(query: Query) -> dict[str, Any]:
    groups = [sorted(group) for group in query.gold]
    return {"query": query.text, "gold": [tool for group in groups for tool in group], "gold_groups": groups}


def _row_of(said: Mapping[str, Any]) -> Row:
    values = {metric: said[metric] for metric in METRICS}
    names = ("tokens", "answer_tokens", "task_tokens", "task_requests", "p50_ms", "p95_ms")
    return Row(WITHOUT, values, *(said[name] for name in names))


async def _warmed(embedder: Embedder, text: str) -> None:
    """Have the model loaded, which no query is to wait for."""
    sys.stderr.write(f"Loading {embedder.name} …\n")
    try:
        await embedder.embed([text], query=True)
    except Exception as exc:
        raise InvalidArguments(f"--compare-embedder: {embedder.name} fails: {exc or type(exc).__name__}") from exc


async def _in_use(services: Services, without: Sequence[Mapping[str, Any]], wait_s: float) -> None:
    """Wait until the search answers differently than without the embedder: its vectors are made in the background.

    Raises:
        InvalidArguments: It does not, for so long.
    """
    known = sum(not entry.own for entry in services.catalog)
    sys.stderr.write(f"Waiting for the vectors of {known} tools …\n")
    until = time.monotonic() + wait_s
    while True:
        for said in without:
            now = [{"tool": hit.id, "score": hit.score} for hit in await find(services, said["query"])]
            if now != said["found"]:
                return
        if time.monotonic() >= until:
            raise InvalidArguments(
                f"--compare-embedder: after {wait_s:g} s the search still finds the same as without the embedder. "
                "Give it more time with --wait, set [plugins.search] embedder_weight above 0, or see the log."
            )
        await asyncio.sleep(POLL_S)


def _changes(without: Sequence[Mapping[str, Any]], after: Row, asked: Sequence[Query]) -> dict[str, int]:
    """For how many queries the ranking became better, worse, or stayed as good."""
    counts = {"better": 0, "worse": 0, "same": 0}
    for said, hits, query in zip(without, after.found, asked, strict=True):
        before = scores.ndcg([hit["tool"] for hit in said["found"]], query, DEPTH)
        now = scores.ndcg([hit.id for hit in hits], query, DEPTH)
        counts["same" if now == before else "better" if now > before else "worse"] += 1
    return counts


def _show(embedder: Embedder, asked: Queries, before: Row, after: Row, changes: Mapping[str, int]) -> None:
    say(asked.about)
    say(f"Embedder: {embedder.name}")
    say()
    print_rows([before, after])
    say()
    say(
        f"With it the ranking is better for {changes['better']} queries, worse for {changes['worse']}, "
        f"as good for {changes['same']}."
    )
    gain = after.values["ndcg@10"] - before.values["ndcg@10"]
    say(f"NDCG@10 {100 * gain:+.1f} points, {after.p50_ms - before.p50_ms:+.2f} ms a search at the median.")


def options(arguments: argparse.Namespace) -> list[str]:
    """The options that name the configuration which ``arguments`` name."""
    found = [f"--set={override}" for override in arguments.overrides]
    found += [f"--config={arguments.config}"] if arguments.config is not None else []
    return found + ([f"--mode={arguments.mode}"] if arguments.mode is not None else [])


async def pml(*words: str) -> str:
    """What another ``pml`` command prints.

    Raises:
        InvalidArguments: Its exit status is not 0; the message is what it said.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pml_core", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    if process.returncode:
        raise InvalidArguments(f"pml {' '.join(words)} failed: {err.decode(errors='replace').strip()}")
    return out.decode(errors="replace")
