from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pml_console.pictures.plan_graph import MOST_TASKS, graph_of
from pml_console.pictures.timeline import bars_of
from pml_hookspecs import ExecutionId, ExecutionRecord, Status

START = datetime(2026, 1, 1, tzinfo=UTC)


def task(id, *needs, **more):
    return {"id": id, "target": f"s:{id}", "depends_on": list(needs), **more}


def plan(*tasks):
    return {"tasks": list(tasks)}


def test_tasks_stand_to_the_right_of_what_they_wait_for():
    graph = graph_of(plan(task("a"), task("b", "a"), task("c", "a", "b")), None)
    a, b, c = graph.boxes
    assert a.x < b.x < c.x
    assert len(graph.lines) == 3
    assert graph.width > c.x
    assert [box.about for box in graph.boxes] == ["s:a", "s:b", "s:c"]


def test_what_ran_says_more_than_what_was_asked():
    graph = graph_of(
        plan(task("a"), task("b")), plan({"id": "b", "status": "ok", "duration_ms": 7, "depends_on": ["a"]})
    )
    a, b = graph.boxes
    assert (a.status, b.status, b.duration_ms) == ("", "ok", 7)
    assert a.x < b.x


def test_tasks_side_by_side_do_not_overlap():
    graph = graph_of(plan(*(task(f"t{n}") for n in range(5))), None)
    assert len({(box.x, box.y) for box in graph.boxes}) == 5
    assert len({box.x for box in graph.boxes}) == 1


def test_a_circle_ends_where_it_is_cut():
    graph = graph_of(plan(task("a", "b"), task("b", "a"), task("c", "c")), None)
    assert len(graph.boxes) == 3


def test_more_than_can_be_drawn_is_counted():
    graph = graph_of(plan(*(task(f"t{n}", *([f"t{n - 1}"] if n else [])) for n in range(MOST_TASKS + 5))), None)
    assert (len(graph.boxes), graph.left_out) == (MOST_TASKS, 5)


@pytest.mark.parametrize("request_", [{}, {"tasks": "x"}, {"tasks": [1, {"no": "id"}]}, {"tasks": 5}])
def test_what_is_no_plan_has_no_graph(request_):
    assert graph_of(request_, {"tasks": None}) is None


def record(id, start_ms=0, duration_ms=None, parent=None):
    return ExecutionRecord(
        id=ExecutionId(id), parent=parent, kind="tool", target="s:t", principal="p", agent="",
        started_at=START + timedelta(milliseconds=start_ms), duration_ms=duration_ms,
        status="running" if duration_ms is None else Status.OK,
    )  # fmt: skip


def test_bars_are_where_in_time_what_ran_was():
    bars = bars_of(record("w", 0, 100), [record("a", 0, 50), record("b", 50, 50)], START)
    assert [(bar.start, bar.length) for bar in bars] == [(0, 50), (50, 50)]


def test_what_runs_goes_on_until_now():
    (bar,) = bars_of(record("w"), [record("a", 50)], START + timedelta(milliseconds=200))
    assert (bar.start, bar.length) == (25, 75)


def test_a_bar_is_never_too_narrow_to_see_or_outside():
    (bar,) = bars_of(record("w", 0, 100_000), [record("a", 100_000, 0)], START)
    assert bar.length > 0.1
    assert bar.start + bar.length <= 100
