"""Answer queries line by line, for programs that measure a ranking."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ranker import Ranker

USUAL = 20
"""Tools in an answer when ``k`` is not given."""


def answer(ranker: Ranker, lines: IO[bytes], out: IO[str], errors: IO[str]) -> None:
    """Answer each line ``{"qid", "query"[, "k"]}`` at once with one line ``{"qid", "ids", "scores"}``, best first.

    A line that cannot be answered is skipped, and one line ``{"error", "line"}`` on ``errors`` says why.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            asked = _asked(line)
        except (ValueError, RecursionError) as exc:
            _write(errors, {"error": str(exc), "line": number})
            continue
        found = ranker.search(asked["query"], asked["k"])
        tools = [] if found is None else found.tools.tolist()
        scores = [] if found is None else [round(score, 4) for score in found.relevance.tolist()]
        _write(out, {"qid": asked["qid"], "ids": [ranker.data.ids[tool] for tool in tools], "scores": scores})


def _asked(line: bytes) -> dict[str, Any]:
    asked = json.loads(line)
    if not isinstance(asked, dict) or not isinstance(asked.get("query"), str) or "qid" not in asked:
        raise ValueError('not {"qid", "query", "k"}')
    k = asked.get("k", USUAL)
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise ValueError(f"'k' must be a whole number from 1 on, not {json.dumps(k)[:40]}")
    return {"qid": asked["qid"], "query": asked["query"], "k": k}


def _write(stream: IO[str], line: dict[str, Any]) -> None:
    stream.write(json.dumps(line) + "\n")
    stream.flush()
