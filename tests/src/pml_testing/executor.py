"""The contract every executor keeps. Subclass and provide ``executor``; or run ``pytest --pml-contract``."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pml_hookspecs import (
    CapabilityRun,
    CodeRun,
    Failure,
    Outcome,
    PluginTask,
    Status,
    Task,
    ToolCall,
    ToolId,
    Workflow,
    encode,
    replace,
)

from .fakes import FakeRun, outcome

if TYPE_CHECKING:
    from pml_hookspecs import Executor, Journal, Run

CODE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+")
"""What codes of failures look like: ``tool.not_connected``."""
GOOD, FAILS, TIMES_OUT, WAITS, NEVER_ENDS = (
    ToolId(f"contract:{name}") for name in ("good", "fails", "times_out", "waits", "never_ends")
)
TOOLS = (GOOD, FAILS, TIMES_OUT, WAITS, NEVER_ENDS)
"""The tools of the tasks of this contract; an executor that looks tools up must find them in its catalog."""
CLEAN_UP_S = 2.0


class ContractRun(FakeRun):
    """A run whose tools do what their names say; a workflow runs its tasks at once, every other task ends well."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.began = asyncio.Event()
        """Set as soon as a call of :data:`NEVER_ENDS` is under way."""
        self.under_way = 0
        """Calls of :data:`NEVER_ENDS` that have not been cancelled yet."""

    async def dispatch(self, task: Task, *, journal: Journal | None = None) -> Outcome:
        """Tasks of a workflow that is given a journal are kept in it."""
        if not isinstance(task, Workflow):
            return await super().dispatch(task)
        self.dispatched.append(task)
        left = [inner for inner in task.tasks if inner.id not in task.known]
        ended = await asyncio.gather(*(self._kept(inner, journal) for inner in left))
        bad = next((one for one in ended if not one.status.good), None)
        output = {one.task_id: one.status.value for one in ended}
        if bad is None:
            return outcome(task.id, output)
        waits = bad.status is Status.INPUT_REQUIRED
        failure = Failure("workflow.waiting" if waits else "workflow.failed", "Not all of it ended well.")
        return outcome(task.id, output, Status.INPUT_REQUIRED if waits else Status.ERROR, failure=failure)

    async def _kept(self, task: Task, journal: Journal | None) -> Outcome:
        if journal is None:
            return await self.dispatch(task)
        return await journal(task.id, task, lambda: self.dispatch(task))

    async def _answer(self, task: Task, _run: Run) -> Outcome:
        tool = task.tool if isinstance(task, ToolCall) else GOOD
        if tool == WAITS:
            failure = Failure("approval.needed", "A human has to look.", details={"approval_id": "contract"})
            return outcome(task.id, status=Status.INPUT_REQUIRED, failure=failure)
        if tool == FAILS:
            return outcome(task.id, status=Status.ERROR, failure=Failure("tool.failed", "It broke."))
        if tool == TIMES_OUT:
            return outcome(task.id, status=Status.TIMED_OUT, failure=Failure("tool.timed_out", "No answer in 1 s."))
        if tool == NEVER_ENDS:
            self.under_way += 1
            self.began.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.under_way -= 1
        return outcome(task.id, {"content": [{"type": "text", "text": "done"}]})


def workflow_of(tool: ToolId) -> Workflow:
    """A workflow with one call of ``tool`` between two good ones that do not need it."""
    calls = (ToolCall(id="before", tool=GOOD), ToolCall(id="it", tool=tool), ToolCall(id="after", tool=GOOD))
    return Workflow(id="contract", tasks=calls)


def _needs_override(executor: Executor, fixture: str) -> Any:
    kinds = ", ".join(sorted(kind.__name__ for kind in executor.handles))
    pytest.skip(f"override the fixture {fixture!r}: the contract cannot know such a task for an executor of {kinds}")


@pytest.mark.anyio
class ExecutorContract:
    """Tests of an executor.

    An executor of workflows needs nothing but the fixture ``executor``. For one of code or capabilities the contract
    knows only what cannot work (a language or capability that does not exist): override ``good_task``,
    ``timing_out_task`` and ``endless_task``, or the tests that use them are skipped and say so. A task that ends when
    cancelled only may call the tool ``contract:never_ends``; if its kind cannot call tools, override ``under_way``.
    """

    group = "pml.executor"

    @pytest.fixture
    def executor(self) -> Executor:
        """The executor to test."""
        raise NotImplementedError("override: return the executor to test")

    @pytest.fixture
    def run(self) -> ContractRun:
        """What the tasks are run with."""
        return ContractRun()

    @pytest.fixture
    def good_task(self, executor: Executor) -> Task:
        """A task that ends OK."""
        return workflow_of(GOOD) if Workflow in executor.handles else _needs_override(executor, "good_task")

    @pytest.fixture
    def ordinary_task(self, executor: Executor, request: pytest.FixtureRequest) -> Task:
        """A task that ends, well or not: the good one where the contract knows one."""
        task: Task = request.getfixturevalue("good_task" if Workflow in executor.handles else "failing_task")
        return task

    @pytest.fixture
    def failing_task(self, executor: Executor) -> Task:
        """A task that goes wrong by its own fault."""
        if Workflow in executor.handles:
            return workflow_of(FAILS)
        if CodeRun in executor.handles:
            return CodeRun(id="contract", language="no-such-language", source="")
        return CapabilityRun(id="contract", capability_id="no-such-capability")

    @pytest.fixture
    def timing_out_task(self, executor: Executor) -> Task:
        """A task in which something takes too long, and is ended for that."""
        return workflow_of(TIMES_OUT) if Workflow in executor.handles else _needs_override(executor, "timing_out_task")

    @pytest.fixture
    def endless_task(self, executor: Executor) -> Task:
        """A task that ends only by being cancelled."""
        return workflow_of(NEVER_ENDS) if Workflow in executor.handles else _needs_override(executor, "endless_task")

    @pytest.fixture
    def under_way(self, run: ContractRun) -> Callable[[], Awaitable[Any]]:
        """Returns, awaited, as soon as the endless task is under way."""
        return run.began.wait

    async def test_handles_some_of_the_three_kinds(self, executor: Executor) -> None:
        assert isinstance(executor.handles, frozenset)
        assert executor.handles
        assert executor.handles <= {CodeRun, CapabilityRun, PluginTask, Workflow}

    async def test_a_good_task_ends_ok(self, executor: Executor, run: ContractRun, good_task: Task) -> None:
        ended = await executor.execute(good_task, run)
        assert ended.status is Status.OK
        assert ended.failure is None

    async def test_a_failing_task_is_an_outcome(self, executor: Executor, run: ContractRun, failing_task: Task) -> None:
        ended = await executor.execute(failing_task, run)
        assert not ended.status.good
        assert ended.failure is not None
        assert CODE.fullmatch(ended.failure.code)
        assert ended.failure.message.strip()

    async def test_the_outcome_bears_the_id_of_the_task(
        self, executor: Executor, run: ContractRun, ordinary_task: Task
    ) -> None:
        for id_ in ("contract", "another name"):
            assert (await executor.execute(replace(ordinary_task, id=id_), run)).task_id == id_

    async def test_the_output_is_json(self, executor: Executor, run: ContractRun, ordinary_task: Task) -> None:
        encode((await executor.execute(ordinary_task, run)).output)

    async def test_times_are_utc_and_durations_whole_milliseconds(
        self, executor: Executor, run: ContractRun, ordinary_task: Task
    ) -> None:
        before = datetime.now(UTC)
        ended = await executor.execute(ordinary_task, run)
        took = datetime.now(UTC) - before
        assert ended.started_at.utcoffset() == timedelta(0)
        # A clock that is set back while the test runs may take a moment off.
        assert before - timedelta(seconds=1) <= ended.started_at <= before + took + timedelta(seconds=1)
        assert type(ended.duration_ms) is int
        assert 0 <= ended.duration_ms <= took / timedelta(milliseconds=1) + 1000

    async def test_a_time_out_is_told_apart_from_an_error(
        self, executor: Executor, run: ContractRun, failing_task: Task, timing_out_task: Task
    ) -> None:
        timed_out, failed = [await executor.execute(task, run) for task in (timing_out_task, failing_task)]
        assert not timed_out.status.good
        assert Status.TIMED_OUT in _told(timed_out)
        assert Status.TIMED_OUT not in _told(failed)

    async def test_cancellation_propagates_and_cleans_up_in_2_s(
        self, executor: Executor, run: ContractRun, endless_task: Task, under_way: Callable[[], Awaitable[Any]]
    ) -> None:
        others = asyncio.all_tasks()
        running = asyncio.ensure_future(executor.execute(endless_task, run))
        await asyncio.wait_for(under_way(), 30)
        cancelled_at = time.monotonic()
        running.cancel()
        await asyncio.wait([running], timeout=CLEAN_UP_S)
        assert running.done(), "still running 2 s after it was cancelled"
        assert time.monotonic() - cancelled_at < CLEAN_UP_S
        assert running.cancelled(), "cancellation was swallowed"
        assert run.under_way == 0, "a task inside is still running"
        assert asyncio.all_tasks() == others, "asyncio tasks are left over"

    async def test_a_hundred_at_once_keep_apart(
        self, executor: Executor, run: ContractRun, ordinary_task: Task
    ) -> None:
        ids = [f"task{i}" for i in range(100)]
        tasks = [executor.execute(replace(ordinary_task, id=id_), run) for id_ in ids]
        async with asyncio.timeout(60):
            ended = await asyncio.gather(*tasks)
        assert [one.task_id for one in ended] == ids
        assert len({one.status for one in ended}) == 1

    async def test_what_ran_before_is_not_run_again(self, executor: Executor, run: ContractRun) -> None:
        if Workflow not in executor.handles:
            return
        before = outcome("before", {"content": [{"type": "text", "text": "done before"}]})
        ended = await executor.execute(replace(workflow_of(GOOD), known={"before": before}), run)
        assert ended.status is Status.OK
        assert {"it", "after"} <= {task.id for task in run.dispatched}
        assert "before" not in {task.id for task in run.dispatched}

    async def test_a_task_that_waits_for_somebody_makes_the_workflow_wait(
        self, executor: Executor, run: ContractRun
    ) -> None:
        if Workflow not in executor.handles:
            return
        ended = await executor.execute(workflow_of(WAITS), run)
        assert ended.status is Status.INPUT_REQUIRED
        assert ended.failure is not None

    async def test_functions_among_the_inputs_are_refused(self, executor: Executor, run: ContractRun) -> None:
        made: dict[type, Task] = {
            CodeRun: CodeRun(id="contract", language="no-such-language", source="", inputs={"f": print}),
            CapabilityRun: CapabilityRun(id="contract", capability_id="no-such-capability", inputs={"f": print}),
        }
        for kind in executor.handles & set(made):
            try:
                ended = await executor.execute(made[kind], run)
            except TypeError:
                continue
            assert not ended.status.good


def _told(ended: Outcome) -> str:
    return f"{ended.status} {ended.output}"
