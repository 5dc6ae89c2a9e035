"""Plans, runs and a gateway that is none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from pml_executor_dbos import Dbos, Settings
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
