"""What is kept of tasks, and what is done again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from durable_kit import ENTRIES, KeptSteps, call

from pml_executor_dbos.journal import RunJournal, is_repeatable
from pml_hookspecs import CapabilityRun, CodeRun, Failure, Retry, Status, Step, Task, Workflow
from pml_testing.fakes import FakeCatalog, outcome

pytestmark = pytest.mark.anyio


class Passes(KeptSteps):
    """Passes over one run, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.performed: list[str] = []
        self.lost = 0
        self.gone = asyncio.Event()

    async def next(self, **more: Any) -> RunJournal:
        return self.journal(self._lost, **more)

    def _lost(self) -> None:
        self.lost += 1
        self.gone.set()

    def perform(self, task: Task, **how: Any) -> Any:
        async def performed() -> Any:
            self.performed.append(task.id)
            await asyncio.sleep(0)
            return outcome(task.id, **how)

        return performed

    async def keep(self, journal: RunJournal, task: Task, path: str = "", **how: Any) -> Any:
        return await journal.keep(path or task.id, task, self.perform(task, **how))


@pytest.fixture
def passes() -> Passes:
    return Passes()


async def test_what_has_run_is_not_run_again(passes: Passes) -> None:
    first = await passes.next()
    tasks = [call(f"t{i}") for i in range(20)]
    ended = await asyncio.gather(*(passes.keep(first, task, output=task.id) for task in tasks))
    second = await passes.next()
    again = await asyncio.gather(*(passes.keep(second, task, output="other") for task in reversed(tasks)))
    assert again == list(reversed(ended))
    assert sorted(passes.performed) == sorted(task.id for task in tasks)


async def test_the_outcome_is_kept_before_it_is_returned(passes: Passes) -> None:
    journal = await passes.next()
    await passes.keep(journal, call("a"))
    assert [(row.path, row.state) for row in passes.rows()] == [("a", "ended")]


async def test_that_a_task_begins_is_kept_before_it_does(passes: Passes) -> None:
    journal = await passes.next()

    async def perform() -> Any:
        (row,) = passes.rows()
        assert (row.state, row.in_doubt) == ("started", True)
        return outcome("a")

    await journal.keep("a", call("a"), perform)


async def test_attempts_under_one_path_are_kept_one_by_one(passes: Passes) -> None:
    journal, task = await passes.next(), call("a")
    bad = {"status": Status.ERROR, "failure": Failure("x.y", "no")}
    first = [await passes.keep(journal, task, **bad), await passes.keep(journal, task, output=2)]
    journal = await passes.next()
    assert [await passes.keep(journal, task), await passes.keep(journal, task)] == first
    assert passes.performed == ["a", "a"]


@pytest.mark.parametrize(
    ("task", "repeatable"),
    [
        (call("a", "s:once"), False),
        (call("a", "s:again"), True),
        (call("a", "s:look"), True),
        (call("a", "s:unknown"), False),
        (call("a", step=Step(idempotency_key="k")), True),
        (call("a", step=Step(retry=Retry(attempts=2))), True),
        (CodeRun(id="a", language="python", source="1"), True),
        (CodeRun(id="a", language="python", source="1", tools=()), True),
        (CodeRun(id="a", language="python", source="1", folder="/x"), False),
        (CapabilityRun(id="a", capability_id="c"), True),
        (Workflow(id="a", tasks=()), True),
    ],
)
def test_what_may_be_repeated(task: Task, repeatable: bool) -> None:  # noqa: FBT001
    assert is_repeatable(task, FakeCatalog(ENTRIES)) is repeatable


async def test_only_what_must_not_be_repeated_is_in_doubt(passes: Passes) -> None:
    journal = await passes.next()
    under_way = [
        asyncio.ensure_future(journal.keep(tool, call("a", f"s:{tool}"), asyncio.get_running_loop().create_future))
        for tool in ("once", "again", "look")
    ]
    while not passes.rows():  # noqa: ASYNC110 - rows tell nobody
        await asyncio.sleep(0)
    journal.held = True
    for each in under_way:
        each.cancel()
    await asyncio.wait(under_way)
    assert [row.path for row in passes.rows() if row.in_doubt] == ["once"]
    journal = await passes.next()
    await passes.keep(journal, call("again", "s:again"))
    assert {row.path: row.state for row in passes.rows()} == {"once": "started", "again": "ended"}


async def test_a_task_that_a_limit_of_the_plan_stopped_has_ended(passes: Passes) -> None:
    journal = await passes.next()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await journal.keep("a", call("a"), asyncio.Event().wait)  # type: ignore[arg-type]
    kept = await passes.keep(await passes.next(), call("a"))
    assert (kept.status, passes.performed) == (Status.CANCELLED, [])


async def test_nothing_begins_once_somebody_else_has_the_run(passes: Passes) -> None:
    stale = await passes.next()
    await passes.next()
    task = asyncio.ensure_future(passes.keep(stale, call("a")))
    await passes.gone.wait()
    task.cancel()
    await asyncio.wait([task])
    assert (passes.performed, passes.lost) == ([], 1)


async def test_a_held_journal_begins_nothing_and_gives_back_what_it_has(passes: Passes) -> None:
    await passes.keep(await passes.next(), call("a"))
    journal = await passes.next()
    journal.held = True
    await passes.keep(journal, call("a"))
    task = asyncio.ensure_future(passes.keep(journal, call("b")))
    await asyncio.wait([task], timeout=0.05)
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])
    assert passes.performed == ["a"]


@pytest.mark.parametrize("by", ["held", "ending"])
async def test_what_goes_wrong_while_the_gateway_ends_is_not_kept(passes: Passes, by: str) -> None:
    ending: list[bool] = []
    journal = await passes.next(ending=lambda: bool(ending))
    done = asyncio.Event()

    async def bad() -> Any:
        ending.extend([True] if by == "ending" else [])
        journal.held = by == "held"
        done.set()
        return outcome("a", status=Status.ERROR, failure=Failure("tool.not_connected", "gone"))

    task = asyncio.ensure_future(journal.keep("a", call("a", "s:again"), bad))
    await done.wait()
    await journal.drained()
    await asyncio.wait([task], timeout=0.05)
    assert not task.done()
    journal.held = True
    task.cancel()
    await asyncio.wait([task])
    assert passes.rows() == []
    assert (await passes.keep(await passes.next(), call("a", "s:again"))).status is Status.OK


async def test_tasks_of_plans_are_not_compared(passes: Passes) -> None:
    await passes.keep(await passes.next(), call("a", arguments={"n": 1}), output=1)
    kept = await passes.keep(await passes.next(), call("a", arguments={"n": 2}))
    assert (kept.output, passes.performed) == (1, ["a"])


async def test_what_waits_for_somebody_is_asked_again_and_so_is_the_workflow_around_it(passes: Passes) -> None:
    waits = {"status": Status.INPUT_REQUIRED, "failure": Failure("approval.required", "look")}
    journal = await passes.next()
    inner = Workflow(id="inner", tasks=())

    async def inside() -> Any:
        await passes.keep(journal, call("a"), "inner/a", **waits)
        return outcome("inner", status=Status.ERROR, failure=Failure("workflow.failed", "1 of 1"))

    await journal.keep("inner", inner, inside)
    journal = await passes.next()

    async def inside_again() -> Any:
        return await passes.keep(journal, call("a"), "inner/a")

    assert (await journal.keep("inner", inner, inside_again)).status is Status.OK
    assert passes.performed == ["a", "a"]


async def test_a_task_takes_two_steps_and_one_where_it_may_be_repeated(passes: Passes) -> None:
    journal = await passes.next()
    await passes.keep(journal, call("a"))
    await passes.keep(journal, call("b", "s:look"))
    assert [(step["output"]["state"], step["output"]["path"]) for step in passes.steps] == [
        ("started", "a"),
        ("ended", "a"),
        ("ended", "b"),
    ]
