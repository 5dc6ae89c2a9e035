"""Wishes over tools of real servers: how often the first tool fits, and how often a wish that none fits stays empty."""

from __future__ import annotations

import hashlib
import json
import statistics
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_suffix("")
FITTING = 0.5
"""Least relevance of a tool that ``search_tools`` shows."""


@dataclass
class Answer:
    """What came of one wish."""

    wish: str
    groups: list[list[str]]
    """Tools that fit, a list for each step; none where no tool does."""
    ids: list[str]
    best: float

    @property
    def first(self):
        """Whether the first tool fits."""
        return bool(self.ids) and any(self.ids[0] in group for group in self.groups)

    @property
    def five(self):
        """Share of the steps with a fitting tool among the first five."""
        return statistics.fmean(any(tool in group for tool in self.ids[:5]) for group in self.groups)


def kept(wish):
    """Whether a wish is of the half that is kept for the report."""
    return hashlib.sha256(wish.encode()).digest()[0] % 2 == 1


def answers(build):
    """Of all wishes.

    Args:
        build: Makes a searcher of tools.
    """
    from pml_search.rows import Tool

    lines = [json.loads(line) for line in (FOLDER / "tools.jsonl").read_text("utf-8").splitlines()]
    tools = [
        Tool(one["id"], one["server"], {"name": one["name"], "description": one["description"]}, one["id"])
        for one in lines
    ]
    searched = build(tools)
    for line in (FOLDER / "wishes.jsonl").read_text("utf-8").splitlines():
        asked = json.loads(line)
        ranked = searched.search(asked["wish"], 20)
        ids = [] if ranked is None else [searched.data.ids[tool] for tool in ranked.tools]
        best = 0.0 if ranked is None else float(ranked.relevance[0])
        yield Answer(asked["wish"], asked["fitting"], ids, best)


def rows(build):
    """By half: wishes, R@1, R@5, that of wishes with several steps, and the shares that stay empty."""
    found = list(answers(build))
    for title, of_report in (("kept for the report", True), ("weights were set with", False)):
        some = [one for one in found if kept(one.wish) == of_report]
        fitting = [one for one in some if one.groups]
        none = [one for one in some if not one.groups]
        steps = [one for one in fitting if len(one.groups) > 1]
        numbers = (
            statistics.fmean(one.first for one in fitting),
            statistics.fmean(one.five for one in fitting),
            statistics.fmean(one.five for one in steps),
            statistics.fmean(one.best < FITTING for one in none),
            statistics.fmean(one.best < FITTING for one in fitting),
        )
        yield [f"{title} ({len(fitting)} / {len(none)})", *(f"{number:.3f}" for number in numbers)]
