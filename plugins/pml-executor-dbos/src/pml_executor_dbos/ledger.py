"""The rows of durable workflows: who has which run, and what each of its tasks came to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CapabilityRun, CodeRun, Outcome, PluginTask, Task, ToolCall, encode
from pml_kit.plain import kind_of, to_plain

from .connection import Connection, Execute, StatementResult
from .liveness import Worker
from .rows import RUN_COLUMNS, SCHEMA, TASK_COLUMNS, RunRow, RunState, TaskRow, outcome_texts, run_row, task_row

if TYPE_CHECKING:
    from .settings import Settings

DAY_MS = 86_400_000

_START = """
INSERT INTO pml_task (run, path, turn, state, claim, attempt, kind, target, repeatable, digest, started_at)
SELECT id, :path, :turn, 'started', :claim, 1, :kind, :target, :repeatable, :digest, :now
FROM pml_run WHERE id = :run AND claim = :claim{locking}
ON CONFLICT (run, path, turn) DO UPDATE SET state = 'started', claim = :claim, attempt = pml_task.attempt + 1,
repeatable = :repeatable, digest = :digest, started_at = :now"""
_END = """
UPDATE pml_task SET state = :state, outcome = :outcome, output = :output, ended_at = :now
WHERE run = :run AND path = :path AND turn = :turn AND claim = :claim AND state = 'started'"""
_DECIDE = """
UPDATE pml_task SET state = :state, outcome = :outcome, output = :output, ended_at = :now
WHERE run = :run AND path = :path AND turn = :turn AND state = 'started'
AND NOT EXISTS (SELECT 1 FROM pml_run WHERE id = :run AND state = 'running')"""


class Ledger:
    """Reads and writes the rows. Every method is one transaction, durable when it returns.

    All raise :class:`~pml_executor_dbos.connection.DatabaseError` when the database cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self._connection = Connection(settings, SCHEMA)
        self._start = _START.format(locking=self._connection.locking)

    async def close(self) -> None:
        """Disconnect."""
        await self._connection.close()

    async def _do(self, statement: str, **values: Any) -> StatementResult:
        values["now"] = round(time.time() * 1000)
        return await self._connection.do(lambda execute: execute(statement, values))

    # Runs

    async def begin(self, run: str, worker: str, task: Task, request: dict[str, Any]) -> bool:
        """Note a new run that ``worker`` has; False if there is one of this id."""
        answer = await self._do(
            "INSERT INTO pml_run (id, state, worker, request, intent, principal, tasks, created_at, changed_at) "
            "VALUES (:run, 'running', :worker, :request, :intent, :principal, :tasks, :now, :now) "
            "ON CONFLICT (id) DO NOTHING",
            run=run,
            worker=worker,
            request=encode(request).decode(),
            intent=request["intent"],
            principal=request["session"].get("principal", "local"),
            tasks=len(getattr(task, "tasks", ())),
        )
        return answer.count == 1

    async def claim(self, run: str, claim: str, worker: str) -> Sequence[TaskRow] | None:
        """Make ``claim`` the only one under which tasks of the run can be begun; its tasks so far.

        Returns:
            None when the run is not to be run.
        """
        values = {"run": run, "claim": claim, "worker": worker, "now": round(time.time() * 1000)}

        def work(execute: Execute) -> Sequence[TaskRow] | None:
            claimed = execute(
                "UPDATE pml_run SET claim = :claim, worker = :worker, state = 'running', changed_at = :now "
                "WHERE id = :run AND state IN ('running', 'ready')",
                values,
            )
            if not claimed.count:
                return None
            found = execute(f"SELECT {TASK_COLUMNS} FROM pml_task WHERE run = :run", values)  # noqa: S608 - constants
            return [task_row(row) for row in found.rows]

        return await self._connection.do(work)

    async def finish(self, run: str, claim: str | None, worker: str, state: RunState, outcome: Outcome) -> bool:
        """Note how the run came out, if it is still ours."""
        ours = "" if claim is None else " AND claim = :claim"
        answer = await self._do(
            "UPDATE pml_run SET state = :state, outcome = :outcome, claim = NULL, changed_at = :now "  # noqa: S608
            f"WHERE id = :run AND state = 'running' AND worker = :worker{ours}",
            run=run,
            claim=claim,
            worker=worker,
            state=state,
            outcome=encode(to_plain(outcome)).decode(),
        )
        return answer.count == 1

    async def cancel(self, run: str) -> bool:
        """Take the run from whoever has it; False if it was not open."""
        answer = await self._do(
            "UPDATE pml_run SET state = 'cancelled', claim = NULL, changed_at = :now "
            "WHERE id = :run AND state IN ('running', 'ready', 'paused')",
            run=run,
        )
        return answer.count == 1

    async def ready(self, run: str) -> bool:
        """Let any worker go on with a run that is paused or cancelled; False if it is neither."""
        answer = await self._do(
            "UPDATE pml_run SET state = 'ready', claim = NULL, changed_at = :now "
            "WHERE id = :run AND state IN ('paused', 'cancelled')",
            run=run,
        )
        return answer.count == 1

    async def take(self, run: str, worker: str, *, from_worker: str | None = None, waiting: bool = False) -> bool:
        """Make the run ``worker``'s; of several who try, one succeeds. Whoever had it can begin no task any more.

        Args:
            run: Which.
            worker: Whose it becomes.
            from_worker: Who has it now; None for a run that is ready.
            waiting: Whether it may be paused or cancelled instead of ready.
        """
        had = "state IN ('ready', 'paused', 'cancelled')" if waiting else "state = 'ready'"
        if from_worker is not None:
            had = "state = 'running' AND worker = :from_worker"
        answer = await self._do(
            "UPDATE pml_run SET state = 'running', worker = :worker, claim = NULL, changed_at = :now "  # noqa: S608
            f"WHERE id = :run AND {had}",
            run=run,
            worker=worker,
            from_worker=from_worker,
        )
        return answer.count == 1

    async def runs(self, *states: RunState, limit: int = 1000) -> list[RunRow]:
        """Newest first; without ``states``, all."""
        chosen = ", ".join(f"'{state}'" for state in states)
        where = f"WHERE state IN ({chosen}) " if states else ""
        answer = await self._do(
            f"SELECT {RUN_COLUMNS} FROM pml_run {where}ORDER BY created_at DESC, id DESC LIMIT :limit",  # noqa: S608 - constants
            limit=limit,
        )
        return [run_row(row) for row in answer.rows]

    async def owners(self) -> dict[str, tuple[RunState, str, str | None]]:
        """State, worker and claim of every run that is running or ready."""
        answer = await self._do("SELECT id, state, worker, claim FROM pml_run WHERE state IN ('running', 'ready')")
        return {id_: (state, worker, claim) for id_, state, worker, claim in answer.rows}

    async def run(self, run: str) -> RunRow | None:
        """None when there is none."""
        answer = await self._do(f"SELECT {RUN_COLUMNS} FROM pml_run WHERE id = :run", run=run)  # noqa: S608 - constants
        return run_row(answer.rows[0]) if answer.rows else None

    async def named(self, beginning: str) -> list[str]:
        """Ids that begin so, at most 2."""
        answer = await self._do(
            "SELECT id FROM pml_run WHERE substr(id, 1, :length) = :beginning ORDER BY id LIMIT 2",
            beginning=beginning,
            length=len(beginning),
        )
        return [row[0] for row in answer.rows]

    async def prune(self, keep_days: int) -> list[str]:
        """Forget runs that ended or were cancelled longer ago; their ids."""
        old = "state IN ('ended', 'cancelled') AND changed_at < :before"
        values = {"before": round(time.time() * 1000) - keep_days * DAY_MS}

        def work(execute: Execute) -> list[str]:
            found = execute(f"SELECT id FROM pml_run WHERE {old}", values).rows  # noqa: S608 - constants
            execute(f"DELETE FROM pml_task WHERE run IN (SELECT id FROM pml_run WHERE {old})", values)  # noqa: S608
            execute(f"DELETE FROM pml_run WHERE {old}", values)  # noqa: S608
            return [row[0] for row in found]

        return await self._connection.do(work)

    # Tasks

    async def started(
        self, run: str, path: str, turn: int, claim: str, task: Task, *, repeatable: bool, digest: str = ""
    ) -> bool:
        """Note that a task begins; False if the run is not ours any more, and then it must not."""
        answer = await self._do(
            self._start,
            run=run,
            path=path,
            turn=turn,
            claim=claim,
            kind=kind_of(task),
            target=_target(task),
            repeatable=int(repeatable),
            digest=digest,
        )
        return answer.count == 1

    async def ended(self, run: str, path: str, turn: int, claim: str, outcome: Outcome) -> bool:
        """Keep a task's outcome; False if somebody else has begun it again."""
        text, output = outcome_texts(outcome)
        answer = await self._do(
            _END, run=run, path=path, turn=turn, claim=claim, state="ended", outcome=text, output=output
        )
        return answer.count == 1

    async def put_off(self, run: str, path: str, turn: int, claim: str) -> bool:
        """A task has not run yet after all; False if somebody else has begun it."""
        answer = await self._do(
            _END, run=run, path=path, turn=turn, claim=claim, state="waiting", outcome=None, output=None
        )
        return answer.count == 1

    async def tasks(self, run: str) -> list[TaskRow]:
        """The tasks of a run, in the order they began."""
        answer = await self._do(
            f"SELECT {TASK_COLUMNS} FROM pml_task WHERE run = :run ORDER BY started_at, path, turn",  # noqa: S608 - constants
            run=run,
        )
        return [task_row(row) for row in answer.rows]

    async def decide(self, run: str, task: TaskRow, outcome: Outcome | None) -> bool:
        """Settle a task in doubt: it has ended like this, or with None is to run again. False if it is not in doubt."""
        text, output = (None, None) if outcome is None else outcome_texts(outcome)
        answer = await self._do(
            _DECIDE,
            run=run,
            path=task.path,
            turn=task.turn,
            state="waiting" if outcome is None else "ended",
            outcome=text,
            output=output,
        )
        return answer.count == 1

    # Workers

    async def beat(self, worker: Worker) -> None:
        """Give a sign of life."""
        await self._do(
            "INSERT INTO pml_worker (id, beat, machine, pid, born) VALUES (:id, 1, :machine, :pid, :born) "
            "ON CONFLICT (id) DO UPDATE SET beat = pml_worker.beat + 1",
            id=worker.id,
            machine=worker.machine,
            pid=worker.pid,
            born=worker.born,
        )

    async def workers(self) -> dict[str, Worker]:
        """All that have not taken their leave, by id."""
        answer = await self._do("SELECT id, beat, machine, pid, born FROM pml_worker")
        return {row[0]: Worker(*row) for row in answer.rows}

    async def leave(self, worker: str) -> None:
        """Forget a worker."""
        await self._do("DELETE FROM pml_worker WHERE id = :id", id=worker)


def _target(task: Task) -> str:
    if isinstance(task, ToolCall):
        return task.tool
    if isinstance(task, CodeRun):
        return task.language
    if isinstance(task, PluginTask):
        return task.type
    return task.capability_id if isinstance(task, CapabilityRun) else ""
