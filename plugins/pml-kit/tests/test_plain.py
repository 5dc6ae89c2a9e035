from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from pml_hookspecs import (
    CapabilityRun,
    CodeRun,
    Failure,
    Outcome,
    Retry,
    Session,
    Status,
    Step,
    ToolCall,
    ToolId,
    Workflow,
)
from pml_kit.plain import kind_of, outcome_from, session_from, task_from, to_plain

CALL = ToolCall(id="a", tool=ToolId("files:read"), arguments={"path": "x"})
EVERYTHING = Workflow(
    id="w",
    intent="all of it",
    durable=True,
    max_tool_calls=3,
    known={"z": Outcome(task_id="z", status=Status.OK, started_at=datetime(2026, 1, 1, tzinfo=UTC), duration_ms=1)},
    tasks=(
        CALL,
        CodeRun(id="b", language="python", source="return 1", depends_on=("a",), tools=("files:*",)),
        CapabilityRun(id="c", capability_id="cap-1", inputs={"n": [1, None]}),
        Workflow(id="d", tasks=(CALL,)),
        ToolCall(
            id="e",
            tool=ToolId("files:write"),
            step=Step(when="a.ok", retry=Retry(attempts=3), compensate=CALL, for_each=[1, 2], on_error="skip"),
        ),
    ),
)


def test_a_task_is_the_same_after_a_way_through_json() -> None:
    assert task_from(json.loads(json.dumps(to_plain(EVERYTHING)))) == EVERYTHING


def test_what_has_its_default_is_left_out() -> None:
    assert to_plain(CALL) == {"kind": "tool", "id": "a", "tool": "files:read", "arguments": {"path": "x"}}


def test_kinds_have_names() -> None:
    assert [kind_of(task) for task in EVERYTHING.tasks] == ["tool", "code", "capability", "workflow", "tool"]


def test_outcomes_and_sessions_are_the_same_after_a_way_through_json() -> None:
    failure = Failure("code.raised", "no", details={"line": 3})
    outcome = Outcome(
        task_id="t",
        status=Status.ERROR,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        duration_ms=5,
        output={"x": [1]},
        failure=failure,
    )
    session = Session(key="k", scopes=frozenset({"admin"}), intent="tidy")
    assert outcome_from(json.loads(json.dumps(to_plain(outcome)))) == outcome
    assert session_from(json.loads(json.dumps(to_plain(session)))) == session


@pytest.mark.parametrize("plain", [{}, {"kind": "magic"}, {"kind": "tool"}, {"kind": "tool", "id": "a", "nonsense": 1}])
def test_what_is_no_task_is_refused(plain: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a task"):
        task_from(plain)


def test_what_is_no_outcome_or_session_is_refused() -> None:
    with pytest.raises(ValueError, match="not an outcome"):
        outcome_from({"status": "ok"})
    with pytest.raises(ValueError, match="not a session"):
        session_from({"who": "me"})
