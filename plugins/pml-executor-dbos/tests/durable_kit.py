"""Plans, runs and a gateway that is none."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from types import SimpleNamespace
from typing import Any

from dbos import DBOSPortableJSONSerializer

from pml_executor_dbos import Dbos, Settings
from pml_executor_dbos.journal import RunJournal
from pml_executor_dbos.presence import prepare
from pml_executor_dbos.steps import TaskRow, TaskState, row_of, task_rows
from pml_executor_dbos.workflow import PLAN_FORMAT, WORKFLOW, client
from pml_hookspecs import ExecutionId, Journal, Outcome, Run, RunOptions, Session, Task, ToolCall, ToolId, Workflow
from pml_kit.plain import to_plain
from pml_testing.fakes import FakeCatalog, FakeRun, FakeServices, entry, outcome

ENTRIES = (
    entry("s:once"),
    entry("s:again", annotations={"idempotentHint": True}),
    entry("s:look", annotations={"readOnlyHint": True}),
)


def call(id_: str, tool: str = "s:once", **more: Any) -> ToolCall:
    """A task that calls a tool."""
    return ToolCall(id=id_, tool=ToolId(tool), **more)


def plan(*tasks: Task) -> Workflow:
    """A durable workflow."""
    return Workflow(id="plan", tasks=tasks or (call("a"), call("b"), call("c")), durable=True)


REQUEST = {"task": to_plain(plan()), "session": {"key": "k", "principal": "ada"}, "intent": "see"}


class PlanRun(FakeRun):
    """A run whose workflows have their tasks done one after the other, each kept by the journal."""

    def __init__(self, id_: str, answer: Callable[[Task, Run], Awaitable[Outcome]] | None = None, **more: Any) -> None:
        super().__init__(answer, **more)
        self.id = ExecutionId(id_)
        self.known: set[str] = set()
        """Tasks of which the workflow knew the outcomes."""

    async def dispatch(self, task: Task, *, journal: Journal | None = None) -> Outcome:
        if not isinstance(task, Workflow):
            return await super().dispatch(task)
        assert not task.durable
        self.known = set(task.known)
        ended = []
        for each in task.tasks:
            perform = self._perform(each)
            ended.append(await (perform() if journal is None else journal(each.id, each, perform)))
        bad = next((one for one in ended if not one.status.good), None)
        told = {one.task_id: str(one.status) for one in ended}
        if bad is not None:
            return outcome(task.id, told, bad.status, failure=bad.failure)
        return outcome(task.id, told)

    def _perform(self, task: Task) -> Callable[[], Awaitable[Outcome]]:
        return lambda: FakeRun.dispatch(self, task)


class Gateway(FakeServices):
    """Runs what a plugin asks it to run: as the real one, by the executor."""

    def __init__(self, settings: Settings, answer: Callable[[Task, Run], Awaitable[Outcome]] | None = None) -> None:
        super().__init__("dbos", settings=settings, catalog=FakeCatalog(ENTRIES))
        self.executor = Dbos(settings, self)
        self.how = answer
        self.runs: list[PlanRun] = []
        self.asked: list[RunOptions] = []

    @property
    def store(self) -> Any:
        """One that has no record of anything."""

        async def get(*_: Any) -> None:
            return None

        return SimpleNamespace(executions=SimpleNamespace(get=get))

    async def run(self, task: Task, session: Session, options: RunOptions = RunOptions()) -> Outcome:
        assert options.id is not None
        self.asked.append(options)
        self.runs.append(PlanRun(options.id, self.how, session=session))
        return await self.executor.execute(task, self.runs[-1])


Step = tuple[TaskState, str]
"""What a run has of the task of an id."""


def left(
    settings: Settings,
    run: str,
    task: Workflow | None = None,
    steps: Iterable[Step] = (),
    *,
    request: dict[str, Any] | None = None,
    status: str = "PENDING",
    executor: str = "dead",
    came_to: Outcome | None = None,
) -> None:
    """Have DBOS know a run that a gateway which is not there has left."""
    task = task or plan()
    if settings.file is not None:
        prepare(settings.file)
    dbos, close = client(settings)
    system, serializer = dbos._sys_db, DBOSPortableJSONSerializer()
    system.run_migrations()
    asked = {"workflow_name": WORKFLOW, "queue_name": "_dbos_internal_queue", "app_version": PLAN_FORMAT}
    wanted = {**REQUEST, "task": to_plain(task)} if request is None else request
    dbos.enqueue({**asked, "workflow_id": run}, json.dumps(wanted))  # type: ignore[typeddict-item]
    by_id = {one.id: one for one in task.tasks}
    rows = []
    for number, (state, id_) in enumerate(steps, 1):
        row = row_of(id_, 0, state, by_id[id_], "", outcome(id_, "kept") if state == "ended" else None)
        rows.append({"function_id": number, "function_name": id_, "output": serializer.serialize(row)})
    with system.engine.begin() as connection:
        for row in rows:
            times = {"started_at_epoch_ms": 1, "completed_at_epoch_ms": 2}
            kept = {"workflow_uuid": run, "serialization": serializer.name(), **times, **row}
            connection.execute(system.tables.operation_outputs.insert().values(**kept))
    close()
    moved(settings, run, status, executor, came_to)


def moved(settings: Settings, run: str, status: str, executor: str, came_to: Outcome | None = None) -> None:
    """Have another gateway be at work on a run, or have ended it."""
    dbos, close = client(settings)
    tables = dbos._sys_db.tables
    ended = {"completed_at": 7} if came_to else {}
    with dbos._sys_db.engine.begin() as connection:
        where = tables.workflow_status.c.workflow_uuid == run
        values = {"status": status, "executor_id": executor, "owner_xid": executor, **ended}
        connection.execute(tables.workflow_status.update().where(where).values(**values))
        if came_to is not None:
            output = DBOSPortableJSONSerializer().serialize(json.dumps(to_plain(came_to)))
            connection.execute(tables.workflow_output.insert().values(workflow_uuid=run, output=output))
    close()


class KeptSteps:
    """Steps of one run, and the journals of passes over it, of which the last one alone may keep anything."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.number = 0

    def journal(self, lost: Callable[[], object] = lambda: None, **more: Any) -> RunJournal:
        self.number += 1
        number = self.number

        async def write(row: dict[str, Any]) -> bool:
            if number != self.number:
                return False
            times = {"started_at_epoch_ms": 1, "completed_at_epoch_ms": 2}
            self.steps.append({"function_id": len(self.steps) + 1, "output": json.loads(json.dumps(row)), **times})
            return True

        return RunJournal(write, FakeServices(catalog=FakeCatalog(ENTRIES)), self.rows(), lost, **more)

    def rows(self) -> list[TaskRow]:
        return task_rows(self.steps, {})
