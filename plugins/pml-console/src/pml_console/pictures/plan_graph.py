"""A plan as a picture: its tasks in columns by what they wait for. Positions are in pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 190, 44
GAP_X, GAP_Y = 56, 14
MARGIN = 8
MOST_TASKS = 300


@dataclass(frozen=True, slots=True)
class Box:
    """One task."""

    id: str
    about: str
    """Which tool, or what else it is."""
    status: str
    """``""`` where it has not run."""
    duration_ms: int | None
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Graph:
    """All tasks, and lines from each to those that wait for it."""

    boxes: Sequence[Box]
    lines: Sequence[str]
    """As paths of SVG."""
    width: int
    height: int
    left_out: int
    """Tasks over :data:`MOST_TASKS`, which are not drawn."""


def graph_of(request: Mapping[str, Any], response: Any) -> Graph | None:
    """The graph of a plan's record; None for anything else.

    What a task waits for is taken from the result, which knows references as well, and else from the request.
    """
    asked = _by_id(request)
    if not asked:
        return None
    ended = _by_id(response)
    known = {id: {**task, **ended.get(id, {})} for id, task in list(asked.items())[:MOST_TASKS]}
    needs = {id: [n for n in task.get("depends_on") or () if n in known and n != id] for id, task in known.items()}
    columns = _columns(needs)
    boxes, rows = dict[str, Box](), dict[int, int]()
    for id, task in known.items():
        column = columns[id]
        row = rows.get(column, 0)
        rows[column] = row + 1
        boxes[id] = Box(
            id,
            str(task.get("target") or task.get("tool") or task.get("type") or ""),
            str(task.get("status") or ""),
            task.get("duration_ms") if isinstance(task.get("duration_ms"), int) else None,
            MARGIN + column * (WIDTH + GAP_X),
            MARGIN + row * (HEIGHT + GAP_Y),
        )
    lines = [_line(boxes[need], boxes[id]) for id, wanted in needs.items() for need in wanted]
    width = 2 * MARGIN + (max(columns.values()) + 1) * (WIDTH + GAP_X) - GAP_X
    height = 2 * MARGIN + max(rows.values()) * (HEIGHT + GAP_Y) - GAP_Y
    return Graph(list(boxes.values()), lines, width, height, max(0, len(asked) - MOST_TASKS))


def _by_id(value: Any) -> dict[str, Mapping[str, Any]]:
    tasks = value.get("tasks") if isinstance(value, Mapping) else None
    if not isinstance(tasks, Sequence) or isinstance(tasks, str):
        return {}
    return {str(task["id"]): task for task in tasks if isinstance(task, Mapping) and "id" in task}


def _columns(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The longest way to each task; what waits for itself in a circle ends where the circle is cut."""
    columns = dict.fromkeys(needs, 0)
    for _ in needs:
        moved = False
        for id, wanted in needs.items():
            column = min(max((columns[need] + 1 for need in wanted), default=0), len(needs) - 1)
            moved, columns[id] = moved or column != columns[id], column
        if not moved:
            break
    return columns


def _line(start: Box, end: Box) -> str:
    x1, y1, x2, y2 = start.x + WIDTH, start.y + HEIGHT // 2, end.x, end.y + HEIGHT // 2
    middle = (x1 + x2) // 2
    return f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"
