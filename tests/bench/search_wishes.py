"""Wishes over tools of public servers: how many that no tool fits stay empty, and how many that one fits do, too."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path

FILE = Path(__file__).with_suffix(".txt")
HEAD = re.compile(r"\[(\w+)\] (\w+) (\w+): (.*)")
SOURCES = ("livemcpbench", "toucan")


@dataclass
class Stack:
    """A few servers that somebody has, and what is wished of them."""

    use: str
    """``set``: they set the model; ``kept``: they did not; ``halves``: those at even places did."""
    source: str
    servers: list[str]
    wishes: list[tuple[str, list[str]]] = field(default_factory=list)
    """What is asked, with the names of the tools that fit."""

    def of(self, *, kept):
        """The wishes that did not set the model, or those that did."""
        odd = [place % 2 == 1 for place in range(len(self.wishes))]
        return [
            wish
            for wish, at_odd in zip(self.wishes, odd, strict=True)
            if kept == (self.use == "kept" or (self.use == "halves" and at_odd))
        ]


def stacks():
    """All of them."""
    found = []
    for line in FILE.read_text("utf-8").splitlines():
        if head := HEAD.match(line):
            found.append(Stack(head[2], head[3], head[4].split()))
        elif line and not line.startswith("#"):
            wish, _, tools = line.rpartition("|")
            found[-1].wishes.append((wish.strip(), tools.split()))
    return found


def rows(data, build, thresholds):
    """By half and threshold: wishes without a fitting tool that stay empty, with one that do; and R@1 and R@5.

    Args:
        data: Folder of the sets.
        build: Makes a searcher of tools.
        thresholds: Relevances from which a tool is kept.
    """
    from pml_search import catalogs

    tools = {name: catalogs.read(data / name / "catalog.jsonl", print) for name in SOURCES}
    answers = {True: [], False: []}
    for stack in stacks():
        sources = SOURCES if stack.source == "both" else (stack.source,)
        some = [tool for name in sources for tool in tools[name] if tool.server in stack.servers]
        searched, name_of = build(some), {tool.id: tool.definition["name"] for tool in some}
        for kept, found in answers.items():
            for wish, fitting in stack.of(kept=kept):
                ranked = searched.search(wish, 20)
                names = [] if ranked is None else [name_of[searched.data.ids[tool]] for tool in ranked.tools]
                best = 0.0 if ranked is None else float(ranked.relevance[0])
                rank = next((place for place, name in enumerate(names) if name in fitting), 99)
                found.append((bool(fitting), best, rank))
    for kept, found in answers.items():
        none, some = ([one for one in found if one[0] == fits] for fits in (False, True))
        empty = [[statistics.fmean(best < at for _, best, _ in part) for at in thresholds] for part in (none, some)]
        firsts = [statistics.fmean(rank < first for _, _, rank in some) for first in (1, 5)]
        yield kept, len(none), len(some), empty, firsts
