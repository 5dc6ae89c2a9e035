"""The contract every wrapper keeps. Subclass and provide ``wrapper``; or run ``pytest --pml-contract``."""

from __future__ import annotations

import asyncio
import copy
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pml_hookspecs import Failure, Outcome, Phase, Status, ToolCall, ToolId
from pml_kit.waits import CALL_S, call_s

from .fakes import FakeRun, outcome
from .work import left_over

if TYPE_CHECKING:
    from pml_hookspecs import Run, Task, Wrapper

GROUP = "pml.plugins"
CODE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+")
"""What codes of failures look like: ``policy.denied``."""
MOST_US = 50.0
ENDINGS = (
    (Status.OK, None),
    (Status.SIMULATED, None),
    (Status.ERROR, Failure("tool.failed", "It broke.", retryable=True)),
    (Status.TIMED_OUT, Failure("tool.timed_out", "No answer in 1 s.", retryable=True)),
    (Status.INPUT_REQUIRED, Failure("approval.required", "Somebody must say yes.")),
)


OUTPUT: Any = {
    "content": [{"type": "text", "text": "mail ada@example.org"}, {"type": "image", "data": "AA=="}],
    "structuredContent": {"a": [1, {"b": "ada@example.org"}]},
    "_meta": {"x": 1},
}
"""What a server answered."""


def _data_of(task: Any) -> Any:
    """Of a task, what could be changed in place."""
    given = [getattr(task, name, None) for name in ("arguments", "inputs", "extra", "params")]
    return [dict(one) if isinstance(one, dict) else bytes(getattr(one, "raw", b"")) for one in given]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownTask:
    """A kind of task that a later version may bring."""

    id: str
    depends_on: tuple[str, ...] = ()


class Next:
    """The rest of the chain: ends every task in the given way and keeps what came."""

    def __init__(self, status: Status = Status.OK, failure: Failure | None = None) -> None:
        self._status, self._failure = status, failure
        self.calls: list[tuple[Any, Any, Outcome]] = []

    async def __call__(self, task: Task, run: Run) -> Outcome:
        ended = outcome(task.id, {"content": []}, self._status, failure=self._failure)
        self.calls.append((task, run, ended))
        return ended


@pytest.mark.anyio
class WrapperContract:
    """Tests of a wrapper.

    Override ``unmatched`` when the wrapper has to do something with every call, and ``tasks`` with ones that it has to
    do something with; those that it refuses belong there.
    """

    group = GROUP

    @pytest.fixture
    def wrapper(self) -> Wrapper:
        """The wrapper to test."""
        raise NotImplementedError("override: return the wrapper to test")

    @pytest.fixture
    def unmatched(self) -> Task:
        """A tool call that this wrapper has no reason to touch when it is for real."""
        return ToolCall(id="unmatched", tool=ToolId("contract:unmatched"), arguments={"x": 1})

    @pytest.fixture
    def tasks(self) -> Sequence[Task]:
        """Tasks that this wrapper may touch, replace or refuse."""
        return [ToolCall(id="contract", tool=ToolId("contract:unmatched"))]

    @pytest.fixture
    def runs(self) -> Sequence[FakeRun]:
        """What tasks are run with: for real, and as a rehearsal."""
        return [FakeRun(), FakeRun(dry_run=True)]

    def test_has_a_phase(self, wrapper: Wrapper) -> None:
        assert wrapper.phase in set(Phase)

    async def test_passes_on_a_call_without_match_unchanged(self, wrapper: Wrapper, unmatched: Task) -> None:
        await self._passes_on(wrapper, unmatched)

    async def test_passes_on_an_unknown_kind_of_task_unchanged(self, wrapper: Wrapper) -> None:
        unknown: Any = UnknownTask(id="unknown")
        await self._passes_on(wrapper, unknown)

    async def _passes_on(self, wrapper: Wrapper, task: Task) -> None:
        run, following = FakeRun(), Next()
        ended = await wrapper(task, run, following)
        assert following.calls, "call_next was not called"
        given_task, given_run, given_back = following.calls[0]
        assert given_task is task
        assert given_run is run
        assert ended is given_back

    async def test_lets_cancellation_through(self, wrapper: Wrapper, tasks: Sequence[Task], unmatched: Task) -> None:
        for task in (unmatched, *tasks):
            began = asyncio.Event()

            async def never_ends(_task: Task, _run: Run, began: asyncio.Event = began) -> Outcome:
                began.set()
                await asyncio.Event().wait()
                raise AssertionError("unreachable")

            running = asyncio.ensure_future(wrapper(task, FakeRun(), never_ends))
            waiting = asyncio.ensure_future(began.wait())
            await asyncio.wait([running, waiting], timeout=30, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if running.done():
                await running
                continue
            running.cancel()
            await asyncio.wait([running], timeout=2)
            assert running.cancelled(), f"cancellation of {task.id!r} was swallowed or took more than 2 s"

    async def test_calls_the_next_at_most_once_unless_it_retries(
        self, wrapper: Wrapper, tasks: Sequence[Task], unmatched: Task, runs: Sequence[FakeRun]
    ) -> None:
        if wrapper.phase == Phase.RETRY:
            return
        for run in runs:
            for status, failure in ENDINGS:
                for task in (unmatched, *tasks):
                    following = Next(status, failure)
                    await wrapper(task, run, following)
                    assert len(following.calls) <= 1, f"{task.id!r} was run {len(following.calls)} times"

    async def test_an_answer_of_its_own_is_complete(
        self, wrapper: Wrapper, tasks: Sequence[Task], unmatched: Task, runs: Sequence[FakeRun]
    ) -> None:
        for run in runs:
            for task in (unmatched, *tasks):
                following = Next()
                ended = await wrapper(task, run, following)
                if not following.calls:
                    assert ended.task_id == task.id
                    assert ended.started_at.utcoffset() == timedelta(0)
                    assert type(ended.duration_ms) is int

    async def test_a_denial_carries_code_and_message(
        self, wrapper: Wrapper, tasks: Sequence[Task], unmatched: Task, runs: Sequence[FakeRun]
    ) -> None:
        for run in runs:
            for task in (unmatched, *tasks):
                ended = await wrapper(task, run, Next())
                assert (ended.failure is None) == ended.status.good
                if ended.failure is not None:
                    assert CODE.fullmatch(ended.failure.code), f"no code such as policy.denied: {ended.failure.code!r}"
                    assert ended.failure.message.strip()

    async def test_what_came_in_and_what_came_back_are_left_as_they_are(
        self, wrapper: Wrapper, tasks: Sequence[Task], unmatched: Task, runs: Sequence[FakeRun]
    ) -> None:
        for run in runs:
            for task in (unmatched, *tasks):
                given, came = copy.deepcopy(_data_of(task)), copy.deepcopy(OUTPUT)

                async def following(task: Task, _run: Run, came: Any = came) -> Outcome:
                    return outcome(task.id, came)

                await wrapper(task, run, following)
                assert _data_of(task) == given, f"the arguments of {task.id!r} were changed; make others with replace()"
                assert came == OUTPUT, f"the output of {task.id!r} was changed in place; history has it too: replace()"

    async def test_leaves_no_task_behind(
        self, wrapper: Wrapper, tasks: Sequence[Task], unmatched: Task, runs: Sequence[FakeRun]
    ) -> None:
        for run in runs:
            for task in (unmatched, *tasks):
                before = asyncio.all_tasks()
                await wrapper(task, run, Next())
                left = await left_over(before)
                assert not left, f"after {task.id!r} there goes on {left}; begin it by Services.spawn, or wait for it"

    async def test_takes_at_most_50_us_of_its_own(self, wrapper: Wrapper, unmatched: Task) -> None:
        run, instant = FakeRun(), outcome(unmatched.id)

        async def following(_task: Task, _run: Run) -> Outcome:
            return instant

        took = []
        for _ in range(501):
            started = time.perf_counter()
            await wrapper(unmatched, run, following)
            took.append((time.perf_counter() - started) * 1e6)
        assert statistics.median(took) <= MOST_US

    async def test_keeps_the_event_loop_for_no_task(
        self, wrapper: Wrapper, tasks: Sequence[Task], unmatched: Task, runs: Sequence[FakeRun]
    ) -> None:
        for run in runs:
            for task in (unmatched, *tasks):
                kept_s = await call_s(wrapper, task, run, Next())
                assert kept_s <= CALL_S, f"{task.id!r} keeps everybody waiting for {kept_s:.2f} s"
