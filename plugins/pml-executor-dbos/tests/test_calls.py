"""Calls that code makes in a durable plan: kept, so that code which begins anew repeats none of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from durable_kit import KeptSteps, call

from pml_hookspecs import CapabilityRun, CodeRun, Failure, Outcome, Status, Task
from pml_testing.fakes import outcome

pytestmark = pytest.mark.anyio
CODE = CodeRun(id="c", language="python", source="…")
Call = tuple[str, dict[str, Any]]


def once(**arguments: Any) -> Call:
    return "s:once", arguments


ASK: Call = ("s:ask", {})


class Code(KeptSteps):
    """Code that makes the calls it is told to, pass after pass."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = True
        """Whether ``s:ask`` waits for somebody."""
        self.made: list[Call] = []

    async def run(self, *calls: Call, task: Task = CODE) -> Outcome:
        journal, numbers = self.journal(), Counter[str]()

        async def one(tool: str, arguments: dict[str, Any]) -> Outcome:
            numbers[tool] += 1
            made = call(f"{tool}#{numbers[tool]}", tool, arguments=arguments)
            return await journal.keep(f"{task.id}/{made.id}", made, lambda: self._called(made.id, tool, arguments))

        async def performed() -> Outcome:
            told: list[Any] = []
            for tool, arguments in calls:
                ended = await one(tool, arguments)
                told.append(ended.output)
                if ended.status is Status.INPUT_REQUIRED:
                    return outcome(task.id, told, ended.status, failure=ended.failure)
            return outcome(task.id, told)

        return await journal.keep(task.id, task, performed)

    async def _called(self, id_: str, tool: str, arguments: dict[str, Any]) -> Outcome:
        if tool == "s:ask" and self.waiting:
            return outcome(id_, status=Status.INPUT_REQUIRED, failure=Failure("approval.required", "look"))
        self.made.append((tool, arguments))
        return outcome(id_, len(self.made))


@pytest.fixture
def code() -> Code:
    return Code()


@pytest.mark.parametrize("task", [CODE, CapabilityRun(id="c", capability_id="x"), call("c", "pml:run_code")])
async def test_code_that_goes_on_repeats_none_of_its_calls(code: Code, task: Task) -> None:
    calls = once(n=1), once(n=2), ASK, once(n=3)
    assert (await code.run(*calls, task=task)).status is Status.INPUT_REQUIRED
    code.waiting = False
    assert (await code.run(*calls, task=task)).output == [1, 2, 3, 4]
    assert code.made == list(calls)


async def test_calls_find_what_came_of_them_in_whatever_order_they_come(code: Code) -> None:
    await code.run(once(n=1, m=0), once(n=2), once(n=2), ASK)
    code.waiting = False
    ended = await code.run(once(n=2), once(m=0, n=1), ASK, once(n=2), once(n=2))
    assert ended.output == [2, 1, 4, 3, 5]


async def test_a_call_in_the_place_of_one_that_came_under_another_number_is_a_new_one(code: Code) -> None:
    await code.run(once(n=1), once(n=2), ASK)
    await code.run(once(n=2), once(n=3), once(n=1), ASK)
    assert code.made == [once(n=1), once(n=2), once(n=3)]
    code.waiting = False
    assert (await code.run(once(n=3), once(n=2), once(n=1), ASK)).output == [3, 2, 1, 4]


@pytest.mark.parametrize("other", [once(n=8), once()])
async def test_code_that_calls_something_else_than_before_fails_and_the_call_is_not_made(
    code: Code, other: Call
) -> None:
    await code.run(once(n=1), ASK)
    code.waiting = False
    ended = await code.run(other, ASK)  # and goes on as if nothing had happened
    assert ended.status is Status.ERROR
    assert ended.failure is not None
    assert ended.failure.code == "durable.diverged"
    assert code.made == [once(n=1), ASK]


async def test_a_call_that_was_under_way_is_in_doubt_and_its_code_is_not(code: Code) -> None:
    journal, never = code.journal(), asyncio.get_running_loop().create_future()

    async def calling() -> Outcome:
        return await journal.keep("c/s:once#1", call("s:once#1"), lambda: never)

    task = asyncio.ensure_future(journal.keep("c", CODE, calling))
    while not code.rows():  # noqa: ASYNC110 - rows tell nobody
        await asyncio.sleep(0)
    journal.held = True
    task.cancel()
    await asyncio.wait([task])
    assert {row.path: row.in_doubt for row in code.rows()} == {"c/s:once#1": True}


@pytest.mark.parametrize(("tool", "again"), [("s:look", True), ("s:once", False)])
async def test_a_call_that_its_code_gave_up_is_made_again_only_if_that_does_no_harm(
    code: Code,
    tool: str,
    again: bool,  # noqa: FBT001
) -> None:
    journal, made = code.journal(), call(f"{tool}#1", tool)
    waits = outcome("c", status=Status.INPUT_REQUIRED, failure=Failure("approval.required", "look"))

    async def calling() -> Outcome:
        began = asyncio.Event()

        async def never() -> Outcome:
            began.set()
            return await asyncio.get_running_loop().create_future()

        beside = asyncio.ensure_future(journal.keep(f"c/{tool}#1", made, never))
        await began.wait()
        beside.cancel()
        await asyncio.wait([beside])
        return waits

    await journal.keep("c", CODE, calling)
    journal = code.journal()

    async def performed() -> Outcome:
        return outcome(made.id, "made")

    async def calling_again() -> Outcome:
        return await journal.keep(f"c/{tool}#1", made, performed)

    ended = await journal.keep("c", CODE, calling_again)
    assert ended.status is (Status.OK if again else Status.CANCELLED)


async def test_code_that_may_make_no_calls_any_more_is_not_waited_for(code: Code) -> None:
    journal, made = code.journal(), []

    async def called() -> Outcome:
        made.append(1)
        return outcome("s:once#1")

    began = asyncio.Event()

    async def calling() -> Outcome:
        journal.held = True
        began.set()
        return await journal.keep("c/s:once#1", call("s:once#1"), called)

    task = asyncio.ensure_future(journal.keep("c", CODE, calling))
    await began.wait()
    async with asyncio.timeout(30):
        await journal.drained()
    task.cancel()
    await asyncio.wait([task])
    assert made == []
