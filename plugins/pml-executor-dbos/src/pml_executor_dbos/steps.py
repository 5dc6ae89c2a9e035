"""What is kept of tasks: rows, each the output of one step of the run, of which the last of a turn counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pml_hookspecs import CapabilityRun, CodeRun, Outcome, PluginTask, RawObject, Task, ToolCall, encode, replace
from pml_kit.plain import kind_of, outcome_from, to_plain

TaskState: TypeAlias = Literal["started", "waiting", "ended"]
"""``started``: was handed to the chain, and its outcome is not known. ``waiting``: has not run, or is to run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """One turn of one task."""

    path: str
    turn: int
    """Counts how often the plan came to this path, from 0: a task that is tried again has several."""
    state: TaskState
    step: int
    """Number of the step that says so."""
    attempt: int
    """How often this turn was begun."""
    kind: str
    target: str
    """The tool, the language or the capability's id; ``""`` for a workflow."""
    digest: str
    """Of what was called with what; ``""`` of other tasks than calls of code."""
    outcome: Outcome | None
    started_at: int
    """Unix time [ms]."""
    ended_at: int | None
    """Unix time [ms]."""

    @property
    def in_doubt(self) -> bool:
        """Was begun, and nobody knows how it ended. That what may be repeated begins is not kept."""
        return self.state == "started"


def row_of(
    path: str, turn: int, state: TaskState, task: Task, digest: str, outcome: Outcome | None = None
) -> dict[str, Any]:
    """As a step keeps it: JSON, where what a server answered stays the text that it was."""
    row = {"path": path, "turn": turn, "state": state, "kind": kind_of(task), "target": _target(task), "digest": digest}
    if outcome is None:
        return row
    output = None if outcome.output is None else encode(outcome.output).decode()
    return {**row, "outcome": to_plain(replace(outcome, output=None)), "output": output}


def task_rows(steps: Iterable[Mapping[str, Any]], decisions: Mapping[str, Any]) -> list[TaskRow]:
    """The tasks of a run, in the order they began.

    Args:
        steps: As DBOS lists them.
        decisions: Rows by :func:`decision_key`, about tasks in doubt.
    """
    rows: dict[tuple[str, int], TaskRow] = {}
    for step in steps:
        kept, number = step["output"], step["function_id"]
        key = kept["path"], kept["turn"]
        before = rows.get(key)
        kept = decisions.get(decision_key(number), kept)
        rows[key] = TaskRow(
            path=kept["path"],
            turn=kept["turn"],
            state=kept["state"],
            step=number,
            attempt=max(1, (before.attempt if before else 0) + (step["output"]["state"] == "started")),
            kind=kept["kind"],
            target=kept["target"],
            digest=kept["digest"],
            outcome=_outcome(kept) if kept["state"] == "ended" else None,
            started_at=before.started_at if before else step["started_at_epoch_ms"],
            ended_at=None if kept["state"] == "started" else step["completed_at_epoch_ms"],
        )
    return list(rows.values())


def decision_key(step: int) -> str:
    """Under which a decision about the task that ``step`` began is kept."""
    return f"decided {step}"


def _outcome(kept: Mapping[str, Any]) -> Outcome:
    outcome, text = outcome_from(kept["outcome"]), kept["output"]
    if text is None:
        return outcome
    # What a server answered goes back as it came; other results are walked, so they are decoded.
    as_it_came = kept["kind"] == "tool" and text.startswith("{")
    return replace(outcome, output=RawObject(text.encode()) if as_it_came else json.loads(text))


def _target(task: Task) -> str:
    if isinstance(task, ToolCall):
        return task.tool
    if isinstance(task, CodeRun):
        return task.language
    if isinstance(task, PluginTask):
        return task.type
    return task.capability_id if isinstance(task, CapabilityRun) else ""
