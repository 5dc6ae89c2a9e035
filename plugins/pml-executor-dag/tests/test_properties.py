from __future__ import annotations

import asyncio
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pml_executor_dag import Dag, Settings
from pml_hookspecs import Failure, Retry, Status, Step, ToolCall, Workflow
from pml_testing.fakes import FakeRun, outcome


@st.composite
def graphs(draw, least=0):
    """Needs by task id, as a dictionary in random plan order, without circles."""
    size = draw(st.integers(least, 12))
    depends_on = {f"t{i}": [f"t{j}" for j in range(i) if draw(st.booleans())] for i in range(size)}
    return {id_: draw(st.permutations(depends_on[id_])) for id_ in draw(st.permutations(list(depends_on)))}


def workflow(depends_on, data):
    """A workflow in which every need is told as such or by a reference."""
    tasks = []
    for id_, ids in depends_on.items():
        named = [need for need in ids if data.draw(st.booleans())]
        arguments = {f"from_{need}": f"{{{{{need}}}}}" for need in ids if need not in named}
        tasks.append(ToolCall(id=id_, tool="s:t", arguments=arguments, depends_on=tuple(named)))
    return Workflow(id="w", tasks=tuple(tasks))


@given(depends_on=graphs(), data=st.data())
def test_every_task_runs_once_after_what_it_needs(depends_on, data):
    failing = {id_ for id_ in depends_on if data.draw(st.integers(0, 5)) == 0}
    naps = {id_: data.draw(st.integers(0, 3)) for id_ in depends_on}
    began, ended = [], []

    async def answer(task, _run):
        began.append(task.id)
        assert set(depends_on[task.id]) <= set(ended)
        for _ in range(naps[task.id]):
            await asyncio.sleep(0)
        ended.append(task.id)
        if task.id in failing:
            return outcome(task.id, status=Status.ERROR, failure=Failure("x", "x"))
        return outcome(task.id, task.id)

    settings_ = Settings(max_parallel=data.draw(st.integers(1, 5)))
    result = asyncio.run(Dag(settings_).execute(workflow(depends_on, data), FakeRun(answer)))

    statuses = {task["id"]: task["status"] for task in result.output["tasks"]}
    assert list(statuses) == list(depends_on)
    assert sorted(began) == sorted(id_ for id_, status in statuses.items() if status != "skipped")
    for id_, status in statuses.items():
        blocked = any(statuses[need] != "ok" for need in depends_on[id_])
        assert status == ("skipped" if blocked else "error" if id_ in failing else "ok")
    assert result.status is (Status.ERROR if any(s != "ok" for s in statuses.values()) else Status.OK)
    layer_of = {id_: i for i, layer in enumerate(result.output["layers"]) for id_ in layer}
    assert all(layer_of[id_] == max((layer_of[need] + 1 for need in ids), default=0) for id_, ids in depends_on.items())


@given(depends_on=graphs(least=2), data=st.data())
def test_a_graph_with_a_circle_is_refused_before_anything_runs(depends_on, data):
    order = sorted(depends_on, key=lambda id_: int(id_[1:]))
    circle = data.draw(st.lists(st.sampled_from(order), min_size=2, unique=True))
    for id_, need in zip(circle, [*circle[1:], circle[0]], strict=True):
        depends_on[id_] = [*depends_on[id_], need]
    run = FakeRun()
    result = asyncio.run(Dag().execute(workflow(depends_on, data), run))
    assert (result.status, result.failure.code) == (Status.ERROR, "workflow.invalid")
    assert run.dispatched == []
    shown = [line.split("never start: ")[1].split(" → ") for line in result.failure.message.splitlines()[1:]]
    assert shown
    for trail in shown:
        assert trail[0] == trail[-1]
        assert all(after in depends_on[before] for before, after in pairwise(trail))


UNDO = ToolCall(id="", tool="s:undo")


@st.composite
def plans(draw):
    """Workflows whose tasks use everything that steps have; and the paths at which a call fails."""
    depends_on = draw(graphs(least=1))
    tasks = []
    for id_, ids in depends_on.items():
        step = Step(
            when=draw(st.sampled_from(["", *(f"{need} != `7`" for need in ids)])),
            for_each=draw(st.sampled_from([None, None, [1, 2, 3]])),
            retry=Retry(attempts=draw(st.integers(1, 3)), delay_s=0),
            on_error=draw(st.sampled_from(["fail", "continue", "skip"])),
            compensate=draw(st.sampled_from([None, UNDO])),
        )
        tasks.append(ToolCall(id=id_, tool="s:t", depends_on=tuple(ids), step=step))
    failing = draw(
        st.sets(st.sampled_from([f"{id_}{end}" for id_ in depends_on for end in ("", "#2", "[1]", "[2]#2", "~undo")]))
    )
    return Workflow(id="w", tasks=tuple(tasks), max_parallel=draw(st.integers(1, 4))), failing


class Crash(BaseException):
    """The gateway ends here."""


@settings(max_examples=60, deadline=None)
@given(plan=plans(), crash_after=st.integers(0, 30))
def test_a_plan_that_is_gone_on_with_from_its_journal_repeats_nothing(plan, crash_after):
    tasks, failing = plan
    journal, calls = {}, []

    async def answer(task, _run):
        if task.id in journal:
            return journal[task.id]
        calls.append(task.id)
        await asyncio.sleep(0)
        bad = task.id in failing
        failure = Failure("tool.failed", "it broke") if bad else None
        journal[task.id] = outcome(task.id, len(task.id), Status.ERROR if bad else Status.OK, failure=failure)
        if len(journal) == crash_after:
            raise Crash
        return journal[task.id]

    async def until_it_ends():
        try:
            return await Dag().execute(tasks, FakeRun(answer))
        except (Crash, BaseExceptionGroup):
            return await Dag().execute(tasks, FakeRun(answer))

    async def at_once():
        journal.clear()
        return await Dag().execute(tasks, FakeRun(answer))

    with_crash = asyncio.run(until_it_ends())
    # What was under way when it crashed was called, but has no outcome.
    repeated = [id_ for id_ in set(calls) if calls.count(id_) > 1]
    assert len(repeated) < tasks.max_parallel
    calls.clear()
    crash_after = -1
    without = asyncio.run(at_once())
    assert len(calls) == len(set(calls))
    assert seen(with_crash) == seen(without)


def seen(ended):
    """What does not depend on the clock."""
    told = [{k: v for k, v in task.items() if k != "duration_ms"} for task in ended.output["tasks"]]
    return ended.status, told, sorted(end["id"] for end in ended.output.get("compensated", []))


@settings(max_examples=60, deadline=None)
@given(plan=plans())
def test_whatever_happens_every_task_is_told_of_and_failures_do_what_they_say(plan):
    tasks, failing = plan
    ended_well, undone = set(), set()

    async def answer(task, _run):
        await asyncio.sleep(0)
        if task.id in failing:
            return outcome(task.id, status=Status.ERROR, failure=Failure("tool.failed", "it broke"))
        (undone if "~" in task.id else ended_well).add(task.id.partition("#")[0])
        return outcome(task.id, 1)

    run = FakeRun(answer)
    ended = asyncio.run(Dag().execute(tasks, run))
    told = {task["id"]: task for task in ended.output["tasks"]}
    by_id = {task.id: task for task in tasks.tasks}
    assert list(told) == list(by_id)
    assert len({task.id for task in run.dispatched}) == len(run.dispatched)
    bad = {id_ for id_, one in told.items() if one["status"] == "error" and by_id[id_].step.on_error == "fail"}
    assert ended.status is (Status.ERROR if bad else Status.OK)
    for id_, one in told.items():
        ends = {need: told[need] for need in by_id[id_].depends_on}
        blocked = any(
            (end["status"] == "error" and by_id[need].step.on_error != "continue")
            or (end["status"] == "skipped" and end["error"]["code"] == "task.skipped")
            for need, end in ends.items()
        )
        assert blocked == (one["status"] == "skipped" and one["error"]["code"] == "task.skipped")
    wanted = {id_ for id_ in ended_well if by_id[id_.partition("[")[0]].step.compensate} if bad else set()
    assert {end["id"] for end in ended.output.get("compensated", [])} == wanted
    assert {id_.partition("~")[0] for id_ in undone} <= wanted
