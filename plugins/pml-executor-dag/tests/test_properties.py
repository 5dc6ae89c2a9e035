from __future__ import annotations

import asyncio
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pml_executor_dag import Dag, Settings
from pml_hookspecs import Failure, Status, ToolCall, Workflow
from pml_testing.fakes import FakeRun, outcome


@st.composite
def graphs(draw, least=0):
    """Needs by task id, as a dictionary in random plan order, without circles."""
    size = draw(st.integers(least, 12))
    needs = {f"t{i}": [f"t{j}" for j in range(i) if draw(st.booleans())] for i in range(size)}
    return {id_: draw(st.permutations(needs[id_])) for id_ in draw(st.permutations(list(needs)))}


def workflow(needs, data):
    """A workflow in which every need is told as such or by a reference."""
    tasks = []
    for id_, ids in needs.items():
        named = [need for need in ids if data.draw(st.booleans())]
        arguments = {f"from_{need}": f"{{{{{need}}}}}" for need in ids if need not in named}
        tasks.append(ToolCall(id=id_, tool="s:t", arguments=arguments, needs=tuple(named)))
    return Workflow(id="w", tasks=tuple(tasks))


@settings(max_examples=100, deadline=None)
@given(needs=graphs(), data=st.data())
def test_every_task_runs_once_after_what_it_needs(needs, data):
    failing = {id_ for id_ in needs if data.draw(st.integers(0, 5)) == 0}
    naps = {id_: data.draw(st.integers(0, 3)) for id_ in needs}
    began, ended = [], []

    async def answer(task, _run):
        began.append(task.id)
        assert set(needs[task.id]) <= set(ended)
        for _ in range(naps[task.id]):
            await asyncio.sleep(0)
        ended.append(task.id)
        if task.id in failing:
            return outcome(task.id, status=Status.ERROR, failure=Failure("x", "x"))
        return outcome(task.id, task.id)

    settings_ = Settings(max_parallel=data.draw(st.integers(1, 5)))
    result = asyncio.run(Dag(settings_).execute(workflow(needs, data), FakeRun(answer)))

    statuses = {task["id"]: task["status"] for task in result.output["tasks"]}
    assert list(statuses) == list(needs)
    assert sorted(began) == sorted(id_ for id_, status in statuses.items() if status != "skipped")
    for id_, status in statuses.items():
        blocked = any(statuses[need] != "ok" for need in needs[id_])
        assert status == ("skipped" if blocked else "error" if id_ in failing else "ok")
    assert result.status is (Status.ERROR if any(s != "ok" for s in statuses.values()) else Status.OK)
    layer_of = {id_: i for i, layer in enumerate(result.output["layers"]) for id_ in layer}
    assert all(layer_of[id_] == max((layer_of[need] + 1 for need in ids), default=0) for id_, ids in needs.items())


@settings(max_examples=100, deadline=None)
@given(needs=graphs(least=2), data=st.data())
def test_a_graph_with_a_circle_is_refused_before_anything_runs(needs, data):
    order = sorted(needs, key=lambda id_: int(id_[1:]))
    circle = data.draw(st.lists(st.sampled_from(order), min_size=2, unique=True))
    for id_, need in zip(circle, [*circle[1:], circle[0]], strict=True):
        needs[id_] = [*needs[id_], need]
    run = FakeRun()
    result = asyncio.run(Dag().execute(workflow(needs, data), run))
    assert (result.status, result.failure.code) == (Status.ERROR, "workflow.invalid")
    assert run.dispatched == []
    shown = [line.split("never start: ")[1].split(" → ") for line in result.failure.message.splitlines()[1:]]
    assert shown
    for trail in shown:
        assert trail[0] == trail[-1]
        assert all(after in needs[before] for before, after in pairwise(trail))
