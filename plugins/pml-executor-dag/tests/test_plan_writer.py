from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from plans_kit import workflow_from

from pml_executor_dag.plan_writer import written
from pml_hookspecs import CapabilityRun, CodeRun, Retry, Step, ToolCall, Workflow

ids = st.text("abcdefgh_-0", min_size=1, max_size=8)
values = st.dictionaries(
    st.text("xyz", min_size=1, max_size=2), st.one_of(st.integers(), st.just("plain"), st.none()), max_size=2
)
seconds = st.one_of(st.none(), st.floats(0.001, 1000))
languages = st.sampled_from(["typescript", "javascript", "python"])


@st.composite
def steps(draw, *, own_limit, undo=True):
    undone = draw(st.one_of(st.none(), tasks_of("x~undo", draw_undo=False))) if undo else None
    return Step(
        when="" if not undo else draw(st.sampled_from(["", "`true`"])),
        for_each=draw(st.one_of(st.none(), st.lists(st.integers(), max_size=3))) if undo else None,
        max_items=draw(st.integers(3, 1000)) if undo else 100,
        retry=Retry(
            attempts=draw(st.integers(1, 20)), delay_s=draw(st.floats(0, 9)), most_delay_s=draw(st.floats(0, 9))
        ),
        timeout_s=None if own_limit else draw(seconds),
        on_error=draw(st.sampled_from(["fail", "continue", "skip"])) if undo else "fail",
        compensate=undone,
        idempotency_key=draw(st.sampled_from(["", "k"])),
        approve=draw(st.booleans()) if undo else False,
    )


@st.composite
def tasks_of(draw, id_, *, depends_on=(), draw_undo=True, depth=0):
    kind = draw(st.integers(0, 3 if depth < 2 else 2))
    step = draw(steps(own_limit=kind in (1, 3), undo=draw_undo))
    if kind == 0:
        return ToolCall(
            id=id_, tool=draw(st.sampled_from(["s:t", "u"])), arguments=draw(values), depends_on=depends_on, step=step
        )
    if kind == 1:
        tools = draw(st.one_of(st.none(), st.just(("s:*", "t:u"))))
        return CodeRun(
            id=id_, language=draw(languages), source="return 1", inputs=draw(values), depends_on=depends_on, step=step,
            intent=draw(st.sampled_from(["", "why"])), timeout_s=draw(seconds), tools=tools,
        )  # fmt: skip
    if kind == 2:
        source = draw(st.sampled_from(["", "return 2"]))
        language = draw(languages) if source else "typescript"
        return CapabilityRun(
            id=id_,
            capability_id="c",
            inputs=draw(values),
            depends_on=depends_on,
            step=step,
            source=source,
            language=language,
        )
    inner = draw(lists_of_tasks(depth=depth + 1))
    return Workflow(id=id_, tasks=inner, depends_on=depends_on, step=step, **draw(limits()))


@st.composite
def lists_of_tasks(draw, depth=0):
    names = draw(st.lists(ids, min_size=1, max_size=3, unique=True))
    made = []
    for i, name in enumerate(names):
        depends_on = tuple(names[j] for j in range(i) if draw(st.booleans()))
        task = draw(tasks_of(name, depends_on=depends_on, depth=depth))
        made.append(_named(task, name))
    return tuple(made)


def _named(task, name):
    """Undoing tasks are named after the task."""
    from pml_hookspecs import replace

    undo = task.step.compensate
    if undo is None:
        return task
    return replace(task, step=replace(task.step, compensate=replace(undo, id=f"{name}~undo")))


@st.composite
def limits(draw):
    return {
        "max_parallel": draw(st.one_of(st.none(), st.integers(1, 1000))),
        "timeout_s": draw(seconds),
        "max_tool_calls": draw(st.one_of(st.none(), st.integers(0, 100))),
        "max_cost_usd": draw(st.one_of(st.none(), st.floats(0, 100))),
    }


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_what_is_written_reads_back_as_it_was(data):
    workflow = Workflow(
        id="workflow",
        tasks=data.draw(lists_of_tasks()),
        intent=data.draw(st.sampled_from(["", "why"])),
        dry_run=data.draw(st.sampled_from([None, True, False])),
        **data.draw(st.sampled_from([{}, {"durable": True}, {"by_layer": True}])),
        **data.draw(limits()),
    )
    assert workflow_from(json.loads(json.dumps(written(workflow)))) == workflow
