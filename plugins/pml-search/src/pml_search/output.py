"""What ``pml search`` prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import explain
from .tool_text import first_sentence, text_of

if TYPE_CHECKING:
    import argparse

    from .ranker import Ranker
    from .rows import Tool

FULL = ("title", "description", "inputSchema", "outputSchema", "annotations")
WIDEST = 100
"""Widest description in a table [characters]."""


def matches(ranker: Ranker, tools: Sequence[Tool], query: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """What was found, as ``--json`` prints it."""
    reads = ranker.data.rows.bits[:, 3].tolist() if tools else []
    among = [
        tool.id
        for tool, reading in zip(tools, reads, strict=True)
        if arguments.server in (None, tool.server) and arguments.effect in (None, "read" if reading else "write")
    ]
    found = ranker.search(query, arguments.limit, None if len(among) == len(tools) else among)
    answer: dict[str, Any] = {"query": query, "total_tools": len(among), "matches": []}
    if found is None:
        return answer
    if arguments.explain:
        answer["explain"] = explain.of_query(found)
    for rank, (place, score) in enumerate(zip(found.tools.tolist(), found.relevance.tolist(), strict=True)):
        if score < arguments.min_score:
            break
        match = _shown(tools[place], score, full=arguments.detail == "full")
        if arguments.explain:
            match["explain"] = explain.of_match(ranker, found, rank)
        answer["matches"].append(match)
    return answer


def _shown(tool: Tool, score: float, *, full: bool) -> dict[str, Any]:
    description = text_of(tool.definition.get("description")).strip()
    shown: dict[str, Any] = {"id": tool.id, "server": tool.server, "score": round(score, 4)}
    if not full:
        return {**shown, "description": " ".join(first_sentence(description).split())}
    return shown | {member: tool.definition[member] for member in FULL if tool.definition.get(member)}


def print_json(answer: Mapping[str, Any]) -> None:
    """One JSON document."""
    json.dump(answer, sys.stdout, indent=2, ensure_ascii=not _unicode())
    sys.stdout.write("\n")


def _unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def print_people(answer: Mapping[str, Any]) -> None:
    """A table; below each tool what was asked for besides."""
    if not answer["matches"]:
        _line(f"Nothing found in {answer['total_tools']} tools. Use other or fewer words.")
        return
    if "explain" in answer:
        for line in _query_lines(answer["explain"]):
            _line(line)
    width = max(len(match["id"]) for match in answer["matches"])
    for match in answer["matches"]:
        text = " ".join(first_sentence(text_of(match.get("description")).strip()).split())
        text = f"{text[: WIDEST - 1]}…" if len(text) > WIDEST else text
        _line(f"{match['score']:.2f}  {match['id'].ljust(width)}  {text}".rstrip())
        for line in (*explain.lines_of(match.get("explain")), *_schemas(match)):
            _line(f"      {line}")


def _line(text: str) -> None:
    printable = "".join(c if c.isprintable() else " " for c in text)
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(printable.encode(encoding, "replace").decode(encoding) + "\n")


def _query_lines(explained: Mapping[str, Any]) -> Iterable[str]:
    if explained["read_as"]:
        yield f"read as: {explained['read_as']}"
    for clause in explained["clauses"]:
        yield f"clause: {clause}"
    yield f"best cosine {explained['best_cosine']}, best share of words {explained['best_share_of_words']}"


def _schemas(match: Mapping[str, Any]) -> Iterable[str]:
    for member in ("inputSchema", "outputSchema", "annotations"):
        if member in match:
            yield f"{member}: {json.dumps(match[member], ensure_ascii=False)}"
