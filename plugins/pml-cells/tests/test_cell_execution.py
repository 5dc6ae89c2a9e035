from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pml_cells.cell_execution import result_of
from pml_cells.notebook import detect_language, new_code, new_notebook
from pml_cells.sessions import Sessions
from pml_cells.tools import cell_execute
from pml_hookspecs import CodeRun, Failure, Outcome, Status, ToolFailed
from pml_testing.fakes import EPOCH, FakeLog, FakeRun

pytestmark = pytest.mark.anyio


def outcome(status: Status, output: Any = None, code: str = "", message: str = "Why.") -> Outcome:
    failure = None if status.good else Failure(code, message)
    return Outcome(task_id="c", status=status, started_at=EPOCH, duration_ms=7, output=output, failure=failure)


def streams(out: str, err: str, code: Any) -> dict[str, Any]:
    return {"stdout": out, "stderr": err, "exit_code": code}


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (outcome(Status.OK, streams("a", "b", 0)), ("a", "b", 0, 7, False)),
        (outcome(Status.ERROR, streams("a", "b", 3), "code.exited"), ("a", "b", 3, 7, False)),
        (outcome(Status.ERROR, streams("a", "b", 0), "code.exited"), ("a", "b", 1, 7, False)),
        (outcome(Status.TIMED_OUT, streams("a", "", 124), "code.timed_out"), ("a", "Error: Why.\n", 124, 7, False)),
        (outcome(Status.TIMED_OUT, None, "task.timed_out"), ("", "Error: Why.\n", 124, 7, False)),
        (outcome(Status.ERROR, streams("a", "b", 137), "code.memory"), ("a", "b\nError: Why.\n", 137, 7, False)),
        (outcome(Status.ERROR, streams("", "b\n", 137), "code.output_limit"), ("", "b\nError: Why.\n", 137, 7, False)),
        (outcome(Status.ERROR, None, "code.invalid"), ("", "Error: Why.\n", 1, 7, False)),
        (outcome(Status.ERROR, None, "sandbox.fault"), ("", "Unexpected error: Why.", 1, 0, True)),
        (outcome(Status.DENIED, None, "policy.denied"), ("", "Unexpected error: Why.", 1, 0, True)),
        (
            outcome(Status.ERROR, None, "executor.missing"),
            ("", "Unexpected error: the runtime for Python is missing. Why.", 1, 0, True),
        ),
        (
            outcome(Status.SIMULATED, {"task_id": "c"}),
            ("", "This was a dry run: the cell was not executed.", 0, 7, False),
        ),
        (outcome(Status.OK, "no streams"), ("", "", 0, 7, False)),
    ],
)
def test_how_a_program_ended_becomes_a_result(ended: Outcome, expected: tuple[Any, ...]) -> None:
    assert tuple(result_of(ended, "python")) == expected


@pytest.mark.parametrize(
    ("language", "filename", "expected"),
    [
        ("javascript", "a.ts", "javascript"),
        ("typescript", "a.js", "typescript"),
        ("python", "a.js", "python"),
        (None, "a.js", "javascript"),
        ("", "a.js", "javascript"),
        (None, "a.py", "python"),
        (None, "a.ts", "typescript"),
        (None, "a.mjs", "typescript"),
        (None, "ajs", "typescript"),
        ("ruby", "a.rb", "typescript"),
        (None, None, "typescript"),
        (None, "", "typescript"),
    ],
)
def test_the_language_of_a_cell(language: str | None, filename: str | None, expected: str) -> None:
    assert detect_language(language, filename) == expected


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
KNOWN = object()
"""Stands for the id of the session, or of its code cell, which a test has only when it runs."""
codes = st.sampled_from(["code.exited", "code.raised", "code.timed_out", "executor.missing", "x", ""])


class NoOutcomeError(Exception):
    """What a broken dispatch raises."""


@st.composite
def endings(draw: Any) -> Any:
    """What a dispatch comes to: any outcome, or what a broken one raises."""
    if draw(st.booleans()):
        return draw(st.sampled_from([NoOutcomeError("broken"), OSError("disk"), KeyError(1), RuntimeError()]))
    output = draw(anything | st.just(streams("a", "b", 0)))
    return outcome(draw(st.sampled_from(list(Status))), output, draw(codes))


@st.composite
def calls(draw: Any) -> Any:
    """Arguments: half of the time those of the cell that exists, otherwise anything."""
    if draw(st.booleans()):
        return {"sessionId": KNOWN, "cellId": KNOWN, "timeout": draw(st.integers(1, 60_000))}
    names = draw(st.sets(st.sampled_from(["sessionId", "cellId", "timeout"])))
    return {name: draw(anything if name == "timeout" else st.just(KNOWN) | anything) for name in sorted(names)}


@settings(max_examples=70, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    given_arguments=calls(),
    ending=endings(),
)
async def test_whatever_comes_the_answer_is_a_structured_result(tmp_path_factory, given_arguments, ending) -> None:
    sessions = Sessions(tmp_path_factory.getbasetemp() / "fuzz")
    if not (known := sessions.all()):
        notebook = new_notebook("T", "typescript")
        cells = (*notebook.cells, new_code("a.ts", "1"))
        known = [sessions.create(type(notebook)(language="typescript", cells=cells), "local")]
    ids = {"sessionId": known[0].id, "cellId": known[0].notebook.cells[-1].id}
    arguments = {name: ids[name] if value is KNOWN else value for name, value in given_arguments.items()}

    async def answer(task: CodeRun, _run: Any) -> Any:
        if isinstance(ending, Exception):
            raise ending
        return ending

    told, failed = await executed(sessions, arguments, FakeRun(answer))
    assert set(told) == {"stdout", "stderr", "exitCode", "executionTime"}
    assert isinstance(told["stdout"], str)
    assert isinstance(told["stderr"], str)
    assert isinstance(told["exitCode"], int)
    assert isinstance(told["executionTime"], int)
    assert failed == told["stderr"].startswith(("Unexpected error: ", "Error: SESSION_", "Error: CELL_", "Error: STOR"))
    if failed:
        assert (told["stdout"], told["exitCode"], told["executionTime"]) == ("", 1, 0)


async def executed(sessions: Sessions, arguments: Any, run: Any) -> tuple[dict[str, Any], bool]:
    """What a client is told, and whether as an error."""
    run.session = type(run.session)(key="test", principal="local")
    try:
        return json.loads(json.dumps(dict(await cell_execute(sessions, 3_600_000, FakeLog(), arguments, run)))), False
    except ToolFailed as exc:
        return json.loads(json.dumps(dict(exc.content))), True


async def test_a_cell_that_is_cancelled_is_cancelled(tmp_path) -> None:
    import asyncio

    sessions = Sessions(tmp_path)
    notebook = new_notebook("T", "typescript")
    cells = (*notebook.cells, new_code("a.ts", "1"))
    session = sessions.create(type(notebook)(language="typescript", cells=cells), "local")
    begun = asyncio.Event()

    async def never(_task: CodeRun, _run: Any) -> Outcome:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    arguments = {"sessionId": session.id, "cellId": session.notebook.cells[2].id}
    call = asyncio.ensure_future(executed(sessions, arguments, FakeRun(never)))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
