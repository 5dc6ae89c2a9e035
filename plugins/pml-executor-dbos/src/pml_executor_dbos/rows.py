"""What is kept of durable workflows, and in which tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pml_hookspecs import Outcome, RawObject, encode
from pml_kit.plain import outcome_from, to_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS pml_run (
        id TEXT PRIMARY KEY, state TEXT NOT NULL, worker TEXT NOT NULL, claim TEXT, request TEXT NOT NULL,
        intent TEXT NOT NULL, principal TEXT NOT NULL, tasks BIGINT NOT NULL, outcome TEXT,
        created_at BIGINT NOT NULL, changed_at BIGINT NOT NULL)""",
    """CREATE INDEX IF NOT EXISTS ix_pml_run_open ON pml_run (state) WHERE state IN ('running', 'ready')""",
    """CREATE TABLE IF NOT EXISTS pml_task (
        run TEXT NOT NULL REFERENCES pml_run (id) ON DELETE CASCADE, path TEXT NOT NULL, turn BIGINT NOT NULL,
        state TEXT NOT NULL, claim TEXT NOT NULL, attempt BIGINT NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL,
        repeatable BIGINT NOT NULL, digest TEXT NOT NULL, outcome TEXT, output TEXT, started_at BIGINT NOT NULL,
        ended_at BIGINT,
        PRIMARY KEY (run, path, turn))""",
    """CREATE TABLE IF NOT EXISTS pml_worker (
        id TEXT PRIMARY KEY, beat BIGINT NOT NULL, machine TEXT NOT NULL, pid BIGINT NOT NULL, born TEXT NOT NULL)""",
)

RunState: TypeAlias = Literal["running", "ready", "paused", "ended", "cancelled"]
"""``running``: some worker has it. ``ready``: any worker may go on with it. ``paused``: waits for a human.
``ended``: has an outcome. ``cancelled``: stopped by somebody; can be resumed."""
RUN_STATES: tuple[RunState, ...] = ("running", "ready", "paused", "ended", "cancelled")
TaskState: TypeAlias = Literal["started", "waiting", "ended"]
"""``started``: was handed to the chain, and its outcome is not known. ``waiting``: has not run, or is to run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One durable workflow."""

    id: str
    state: RunState
    worker: str
    """The worker that has the run, or had it last."""
    request: dict[str, Any]
    """What was asked for: ``task``, ``session`` and ``intent`` as plain JSON."""
    intent: str
    principal: str
    tasks: int
    """Number of tasks in the plan's outermost layer."""
    outcome: Outcome | None
    """The last one: of a paused run, why it waits."""
    created_at: int
    """Unix time [ms]."""
    changed_at: int
    """Unix time [ms]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """One turn of one task."""

    path: str
    turn: int
    """Counts how often the plan came to this path, from 0: a task that is tried again has several."""
    state: TaskState
    attempt: int
    """How often this turn was begun."""
    kind: str
    target: str
    """The tool, the language or the capability's id; ``""`` for a workflow."""
    repeatable: bool
    """Whether running it again does no harm."""
    digest: str
    """Of what was called with what; ``""`` of other tasks than calls of tools."""
    outcome: Outcome | None
    started_at: int
    """Unix time [ms]."""
    ended_at: int | None
    """Unix time [ms]."""

    @property
    def in_doubt(self) -> bool:
        """Was begun, nobody knows how it ended, and it must not simply be run again."""
        return self.state == "started" and not self.repeatable


RUN_COLUMNS = "id, state, worker, request, intent, principal, tasks, outcome, created_at, changed_at"
TASK_COLUMNS = "path, turn, state, attempt, kind, target, repeatable, digest, outcome, output, started_at, ended_at"


def run_row(values: Sequence[Any]) -> RunRow:
    """From :data:`RUN_COLUMNS`."""
    id_, state, worker, request, intent, principal, tasks, outcome, created_at, changed_at = values
    return RunRow(
        id=id_,
        state=state,
        worker=worker,
        request=json.loads(request),
        intent=intent,
        principal=principal,
        tasks=tasks,
        outcome=None if outcome is None else outcome_from(json.loads(outcome)),
        created_at=created_at,
        changed_at=changed_at,
    )


def task_row(values: Sequence[Any]) -> TaskRow:
    """From :data:`TASK_COLUMNS`."""
    path, turn, state, attempt, kind, target, repeatable, digest, outcome, output, started_at, ended_at = values
    return TaskRow(
        path=path,
        turn=turn,
        state=state,
        attempt=attempt,
        kind=kind,
        target=target,
        repeatable=bool(repeatable),
        digest=digest,
        outcome=None if outcome is None else _outcome_of(outcome, output, kind),
        started_at=started_at,
        ended_at=ended_at,
    )


def _outcome_of(outcome: str, output: str | None, kind: str) -> Outcome:
    members = json.loads(outcome)
    if output is not None:
        # What a server answered goes back as it came; other results are walked, so they are decoded.
        as_it_came = kind == "tool" and output.startswith("{")
        members["output"] = RawObject(output.encode()) if as_it_came else json.loads(output)
    return outcome_from(members)


def outcome_texts(outcome: Outcome) -> tuple[str, str | None]:
    """An outcome without its output, and the output, as JSON texts. An output that came as bytes is not decoded."""
    members = {
        "task_id": outcome.task_id,
        "status": str(outcome.status),
        "started_at": outcome.started_at.isoformat(),
        "duration_ms": outcome.duration_ms,
    }
    if outcome.failure is not None:
        members["failure"] = to_plain(outcome.failure)
    if outcome.cost_usd is not None:
        members["cost_usd"] = outcome.cost_usd
    return encode(members).decode(), None if outcome.output is None else encode(outcome.output).decode()
