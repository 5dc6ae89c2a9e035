"""Runs as DBOS has them, for whoever looks at them and steers them: the gateway, its tools, the command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from pml_hookspecs import Outcome, Status
from pml_kit.plain import outcome_from

from .presence import prepare
from .steps import TaskRow, decision_key, row_of, task_rows

if TYPE_CHECKING:
    from pml_hookspecs import Task

    from .settings import Settings

T = TypeVar("T")
RunState: TypeAlias = Literal["running", "ready", "paused", "ended", "cancelled"]
"""``running``: some gateway has it. ``ready``: any gateway may go on with it. ``paused``: waits for a human.
``ended``: has an outcome. ``cancelled``: stopped by somebody; can be resumed."""
OPEN: dict[str, RunState] = {"PENDING": "running", "ENQUEUED": "ready", "DELAYED": "ready"}
CANCELLED = "cancelled"
"""Attribute of a paused run: when it was paused that was cancelled since."""
MISSING = ("no such table", "does not exist")


class DatabaseError(Exception):
    """The database cannot be used. The message says which and why; it has no password in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One durable workflow."""

    id: str
    state: RunState
    worker: str
    """The gateway that has the run, or had it last."""
    request: dict[str, Any]
    """What was asked for: ``task``, ``session`` and ``intent`` as plain JSON."""
    outcome: Outcome | None
    """The last one: of a paused run, why it waits."""
    created_at: int
    """Unix time [ms]."""
    changed_at: int
    """Unix time [ms]."""

    @property
    def intent(self) -> str:
        """Why it runs."""
        return str(self.request["intent"])

    @property
    def principal(self) -> str:
        """Whose it is."""
        return str(self.request["session"].get("principal", "local"))


class Ledger:
    """All methods raise :class:`DatabaseError` when the database cannot be used."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._thread: ThreadPoolExecutor | None = None
        self._client: Any = None
        self._close: Callable[[], None] = lambda: None

    async def _do(self, work: Callable[[Any], T], nothing: T) -> T:
        """What ``work`` makes of DBOS's client; ``nothing`` where there are no tables yet."""
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="pml-durable-runs")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._done, work, nothing)

    def _done(self, work: Callable[[Any], T], nothing: T) -> T:
        from dbos import error
        from sqlalchemy.exc import DBAPIError

        from .workflow import client

        try:
            if self._client is None:
                if self._settings.file is not None:
                    prepare(self._settings.file)
                self._client, self._close = client(self._settings)
            return work(self._client)
        except error.DBOSException:
            return nothing  # it has another state by now
        except (DBAPIError, OSError) as exc:
            problem = str(getattr(exc, "orig", exc))
            if any(words in problem for words in MISSING):
                return nothing
            where = self._settings.file or self._settings.url.rpartition("@")[2].partition("?")[0]
            raise DatabaseError(f"the database of durable workflows, {where}: {problem}") from exc

    async def close(self) -> None:
        """Disconnect."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._close)
            self._client = None
            thread.shutdown(wait=False)

    async def runs(self, *states: RunState, limit: int = 1000) -> list[RunRow]:
        """Newest first; without ``states``, all."""
        rows = await self._listed(sort_desc=True, **({} if states else {"limit": limit}))
        return [row for row in rows if not states or row.state in states][:limit]

    async def some(self, ids: Iterable[str]) -> dict[str, RunRow]:
        """Those of these ids that there are."""
        wanted = list(ids)
        return {row.id: row for row in await self._listed(workflow_ids=wanted)} if wanted else {}

    async def run(self, run: str) -> RunRow | None:
        """None when there is none."""
        return (await self.some([run])).get(run)

    async def named(self, beginning: str) -> list[RunRow]:
        """Those whose ids begin so, at most 2, and the one that has it as its id alone."""
        rows = await self._listed(workflow_id_prefix=beginning, limit=2)
        return [row for row in rows if row.id == beginning] or rows

    async def _listed(self, **which: Any) -> list[RunRow]:
        from .workflow import WORKFLOW

        return await self._do(lambda dbos: [run_row(one) for one in dbos.list_workflows(name=WORKFLOW, **which)], [])

    async def workers(self) -> set[str]:
        """Gateways that have runs, as far as DBOS knows."""
        return {row.worker for row in await self._listed(status="PENDING", load_output=False)}

    async def tasks(self, run: str) -> list[TaskRow]:
        """The tasks of a run, in the order they began."""
        return (await self.history(run))[0]

    async def history(self, run: str) -> tuple[list[TaskRow], int]:
        """The tasks of a run, and the number of its last step."""

        def work(dbos: Any) -> tuple[list[TaskRow], int]:
            found = dbos.list_workflows(workflow_ids=[run], load_output=False)
            steps = dbos.list_workflow_steps(run) if found else []
            last = max((step["function_id"] for step in steps), default=0)
            return task_rows(steps, (found[0].attributes if found else None) or {}), last

        return await self._do(work, ([], 0))

    async def cancel(self, run: str) -> bool:
        """Take the run from whoever has it; False if it was not open."""
        row = await self.run(run)
        if row is None or row.state not in ("running", "ready", "paused"):
            return False
        if row.state != "paused":
            return await self._do(lambda dbos: dbos.cancel_workflow(run) is None, False)
        mark = {CANCELLED: row.changed_at}
        return await self._do(lambda dbos: dbos.update_workflow_attributes(run, mark, merge=True) is None, False)

    async def ready(self, run: str) -> bool:
        """Let any gateway go on with a run that is paused or cancelled; False if it is neither. Of several one does."""
        row = await self.run(run)
        if row is None or row.state not in ("paused", "cancelled"):
            return False
        _, last = await self.history(run)
        return await self._do(lambda dbos: bool(dbos.rewind_workflow(run, start_step=last + 1)), False)

    async def decide(self, run: str, task: TaskRow, plan: Task, outcome: Outcome | None) -> None:
        """Settle a task in doubt: it has ended like this, or with None is to run again."""
        row = row_of(task.path, task.turn, "waiting" if outcome is None else "ended", plan, task.digest, outcome)
        decided = {decision_key(task.step): {**row, "kind": task.kind, "target": task.target}}
        await self._do(lambda dbos: dbos.update_workflow_attributes(run, decided, merge=True), None)

    async def prune(self, keep_days: int) -> list[str]:
        """Forget runs that ended or were cancelled longer ago; their ids."""
        before = (datetime.now(UTC) - timedelta(days=keep_days)).isoformat()
        rows = await self._listed(completed_before=before)
        old = [row.id for row in rows if row.state in ("ended", "cancelled")]
        await self._do(lambda dbos: dbos.delete_workflows(old) if old else None, None)
        return old


def run_row(status: Any) -> RunRow:
    """As DBOS has it."""
    outcome = outcome_from(json.loads(status.output)) if status.status == "SUCCESS" and status.output else None
    state: RunState = OPEN.get(status.status, "ended" if status.status in ("SUCCESS", "ERROR") else "cancelled")
    if outcome is not None and outcome.status is Status.INPUT_REQUIRED:
        cancelled = (status.attributes or {}).get(CANCELLED) == status.completed_at
        state = "cancelled" if cancelled else "paused"
    return RunRow(
        id=status.workflow_id,
        state=state,
        worker=status.executor_id or "",
        request=json.loads(status.input["args"][0]),
        outcome=outcome,
        created_at=status.created_at,
        changed_at=status.completed_at or status.updated_at,
    )
