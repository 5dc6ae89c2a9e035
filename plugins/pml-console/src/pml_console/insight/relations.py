"""Tools that are used together, as a picture: each on a circle, with lines to those that ran in the same executions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from pml_hookspecs import GATEWAY_SERVER

MOST_TOOLS = 12
"""On the circle: more cannot be read."""
MOST_PAIRS = 30
MOST_OF_ONE = 30
"""Tools of one execution that are paired at most: pairs grow with the square."""
WIDTH, HEIGHT, RADIUS = 720, 420, 150
LABEL_X = 14
WIDEST = 8.0


@dataclass(frozen=True, slots=True)
class Tool:
    """One on the circle."""

    id: str
    x: float
    y: float
    label_x: float
    anchor: str
    """Which end of its label stands there: ``start`` or ``end``."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two that were used together."""

    one: str
    other: str
    times: int
    """In how many executions."""
    line: str
    """As a path of SVG."""
    width: float


@dataclass(frozen=True, slots=True)
class Relations:
    """The picture; the pairs that are most often used together first. Empty where there are none."""

    tools: Sequence[Tool]
    pairs: Sequence[Pair]
    looked_at: int
    """Executions that were looked through."""
    width: int = WIDTH
    height: int = HEIGHT


def relations_of(calls: Iterable[Sequence[str]]) -> Relations:
    """What tools executions have in common; ``calls`` are those of one each, not counting the gateway's own tools."""
    times: Counter[tuple[str, str]] = Counter()
    looked_at = 0
    for called in calls:
        looked_at += 1
        theirs = sorted({tool for tool in called if not tool.startswith(f"{GATEWAY_SERVER}:")})
        times.update(combinations(theirs[:MOST_OF_ONE], 2))
    weights: Counter[str] = Counter()
    for pair, count in times.items():
        weights.update(dict.fromkeys(pair, count))
    shown = sorted(sorted(weights), key=lambda tool: -weights[tool])[:MOST_TOOLS]
    tools = {id: _tool(id, n, len(shown)) for n, id in enumerate(sorted(shown))}
    between = [(pair, count) for pair, count in times.items() if set(pair) <= tools.keys()]
    between.sort(key=lambda one: (-one[1], one[0]))
    most = max((count for _, count in between), default=1)
    pairs = [_pair(tools[one], tools[other], count, most) for (one, other), count in between[:MOST_PAIRS]]
    return Relations(list(tools.values()), pairs, looked_at)


def _tool(id: str, n: int, of: int) -> Tool:
    angle = 2 * math.pi * n / of - math.pi / 2
    x, y = WIDTH / 2 + RADIUS * math.cos(angle), HEIGHT / 2 + RADIUS * math.sin(angle)
    right = math.cos(angle) >= -1e-9  # noqa: PLR2004 - what is straight above is to the right
    return Tool(
        id, round(x, 1), round(y, 1), round(x + (LABEL_X if right else -LABEL_X), 1), "start" if right else "end"
    )


def _pair(one: Tool, other: Tool, times: int, most: int) -> Pair:
    line = f"M{one.x} {one.y} Q{WIDTH // 2} {HEIGHT // 2} {other.x} {other.y}"
    return Pair(one.id, other.id, times, line, round(max(1.0, WIDEST * times / most), 1))
