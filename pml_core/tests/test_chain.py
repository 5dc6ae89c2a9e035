from __future__ import annotations

import asyncio

import pytest

from pml_core.kernel.chain import NamedWrapper, fold
from pml_hookspecs import Phase, Status, ToolCall
from pml_kit.order import in_order
from pml_testing.fakes import FakeLog, FakeRun, outcome

pytestmark = pytest.mark.anyio
TASK = ToolCall(id="t", tool="fs:read")


class Wrapper:
    """Notes when it is passed."""

    def __init__(self, phase, name="", trail=()):
        self.phase, self.name, self.trail = phase, name, trail

    async def __call__(self, task, run, call_next):
        self.trail.append(f"{self.name} in")
        result = await call_next(task, run)
        self.trail.append(f"{self.name} out")
        return result


async def bottom(task, run):
    return outcome(task.id, "ran")


def wrapper(phase, function):
    class Made:
        def __init__(self) -> None:
            self.phase = phase

        async def __call__(self, task, run, call_next):
            return await function(task, run, call_next)

    return Made()


def test_the_order_is_by_phase_and_the_same_on_every_start():
    wrappers = [
        NamedWrapper("a", Wrapper(Phase.RETRY)),
        NamedWrapper("z", Wrapper(Phase.OBSERVE)),
        NamedWrapper("core", Wrapper(Phase.AUTHORIZE)),
        NamedWrapper("b", Wrapper(Phase.AUTHORIZE)),
    ]
    assert [w.plugin for w in in_order(wrappers)[0]] == ["z", "b", "core", "a"]


async def test_the_outermost_wrapper_is_the_first_in_and_the_last_out():
    trail: list[str] = []
    parts = [
        NamedWrapper("p", Wrapper(Phase.RETRY, "inner", trail)),
        NamedWrapper("p", Wrapper(Phase.OBSERVE, "outer", trail)),
    ]
    result = await fold(parts, bottom, FakeLog())(TASK, FakeRun())
    assert (result.output, trail) == ("ran", ["outer in", "inner in", "inner out", "outer out"])


async def test_a_wrapper_may_answer_without_running_or_run_twice_or_hand_on_another_task():
    ran = []

    async def innermost(task, run):
        ran.append(task.id)
        return outcome(task.id)

    async def refuses(task, run, call_next):
        return outcome(task.id, status=Status.DENIED)

    async def twice(task, run, call_next):
        await call_next(task, run)
        return await call_next(ToolCall(id="other", tool=task.tool), run)

    chain = fold([NamedWrapper("p", wrapper(Phase.LIMIT, refuses))], innermost, FakeLog())
    assert ((await chain(TASK, FakeRun())).status, ran) == (Status.DENIED, [])
    chain = fold([NamedWrapper("p", wrapper(Phase.LIMIT, twice))], innermost, FakeLog())
    assert ((await chain(TASK, FakeRun())).task_id, ran) == ("other", ["t", "other"])


@pytest.mark.parametrize("before", [True, False])
async def test_a_wrapper_that_fails_refuses_the_task_and_is_named_in_the_log(before):
    ran = []

    async def innermost(task, run):
        ran.append(task.id)
        return outcome(task.id, "secret result")

    async def fails(task, run, call_next):
        if not before:
            await call_next(task, run)
        raise ValueError("private detail")

    log = FakeLog()
    result = await fold([NamedWrapper("policy", wrapper(Phase.AUTHORIZE, fails))], innermost, log)(TASK, FakeRun())
    assert (result.status, result.failure.code, result.output, result.task_id) == (
        Status.ERROR,
        "wrapper.fault",
        None,
        "t",
    )
    assert "'policy'" in result.failure.message
    assert "private detail" not in result.failure.message
    assert ran == ([] if before else ["t"])
    ((level, _, fields),) = log.lines
    assert (level, fields["plugin"], fields["task"]) == ("exception", "policy", "t")


class Odd(BaseException):
    """Neither an Exception nor anything that ends a task from outside."""


@pytest.mark.parametrize("raised", [SystemExit(3), Odd("private")])
@pytest.mark.parametrize("at_once", [True, False])
async def test_whatever_a_wrapper_raises_refuses_the_task_and_ends_nothing_else(raised, at_once):
    class Fails:
        phase = Phase.AUTHORIZE

        def __call__(self, task, run, call_next):
            if at_once:
                raise raised
            return self.later()

        async def later(self):
            raise raised

    async def innermost(task, run):
        raise AssertionError("it ran")

    log = FakeLog()
    result = await fold([NamedWrapper("policy", Fails())], innermost, log)(TASK, FakeRun())
    assert (result.status, result.failure.code) == (Status.ERROR, "wrapper.fault")
    assert [(level, fields["plugin"]) for level, _, fields in log.lines] == [("exception", "policy")]


async def test_wrappers_further_out_see_the_fault_as_an_outcome():
    seen = []

    async def fails(task, run, call_next):
        raise ValueError

    async def watches(task, run, call_next):
        seen.append((await call_next(task, run)).failure.code)
        return outcome(task.id)

    parts = [NamedWrapper("a", wrapper(Phase.RETRY, fails)), NamedWrapper("b", wrapper(Phase.OBSERVE, watches))]
    assert (await fold(parts, bottom, FakeLog())(TASK, FakeRun())).status is Status.OK
    assert seen == ["wrapper.fault"]


@pytest.mark.parametrize("given", [None, "text", {"status": "ok"}])
async def test_a_wrapper_that_forgets_to_return_an_outcome_has_failed(given):
    async def forgets(task, run, call_next):
        await call_next(task, run)
        return given

    result = await fold([NamedWrapper("policy", wrapper(Phase.LIMIT, forgets))], bottom, FakeLog())(TASK, FakeRun())
    assert (result.status, result.failure.code) == (Status.ERROR, "wrapper.fault")


async def test_an_executor_that_fails_is_a_fault_of_its_own_and_says_nothing_private():
    async def fails(task, run):
        raise ValueError("private detail")

    log = FakeLog()
    result = await fold([], fails, log)(TASK, FakeRun())
    assert (result.status, result.failure.code) == (Status.ERROR, "executor.fault")
    assert "private detail" not in result.failure.message
    assert log.lines[0][0] == "exception"


async def test_an_executor_that_returns_no_outcome_has_failed():
    async def forgets(task, run):
        return None

    assert (await fold([], forgets, FakeLog())(TASK, FakeRun())).failure.code == "executor.fault"


async def test_cancellation_passes_through_every_layer():
    inside, trail = asyncio.Event(), []

    async def hangs(task, run):
        inside.set()
        await asyncio.Event().wait()

    async def tidies(task, run, call_next):
        try:
            return await call_next(task, run)
        finally:
            trail.append("tidied")

    log = FakeLog()
    running = asyncio.ensure_future(
        fold([NamedWrapper("p", wrapper(Phase.LIMIT, tidies))], hangs, log)(TASK, FakeRun())
    )
    await inside.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (trail, log.lines) == (["tidied"], [])


class Plain:
    """A wrapper that is no coroutine function: returns what ``look`` returns."""

    phase = Phase.VALIDATE

    def __init__(self, look):
        self.look = look

    def __call__(self, task, run, call_next):
        return self.look(task, run, call_next)


async def test_a_plain_wrapper_that_hands_on_what_comes_from_below_adds_no_coroutine():
    passes = [NamedWrapper(name, Plain(lambda task, run, call_next: call_next(task, run))) for name in "abc"]
    with_them, without = (fold(parts, bottom, FakeLog())(TASK, FakeRun()) for parts in (passes, []))
    assert with_them.cr_code is without.cr_code
    assert (await with_them).output == (await without).output == "ran"


async def refuses_plainly(task, run, call_next):
    return outcome(task.id, status=Status.DENIED)


async def test_a_plain_wrapper_may_refuse():
    parts = [NamedWrapper("policy", Plain(refuses_plainly))]
    assert (await fold(parts, bottom, FakeLog())(TASK, FakeRun())).status is Status.DENIED


def raises(task, run, call_next):
    raise ValueError("private detail")


async def raises_later(task, run, call_next):
    raise ValueError("private detail")


@pytest.mark.parametrize("look", [raises, raises_later, lambda *_: None, lambda *_: outcome("t")])
async def test_a_plain_wrapper_that_fails_is_the_one_that_is_blamed(look):
    parts = [
        NamedWrapper("outer", Plain(lambda task, run, call_next: call_next(task, run))),
        NamedWrapper("policy", Plain(look)),
    ]
    parts.append(NamedWrapper("within", wrapper(Phase.RETRY, lambda task, run, call_next: call_next(task, run))))
    log = FakeLog()
    result = await fold(parts, bottom, log)(TASK, FakeRun())
    assert (result.status, result.failure.code) == (Status.ERROR, "wrapper.fault")
    assert "'policy'" in result.failure.message
    assert "private detail" not in result.failure.message
    assert [(level, fields["plugin"]) for level, _, fields in log.lines] == [("exception", "policy")]


async def test_a_plain_wrapper_further_out_is_not_blamed_for_what_broke_below():
    def broken(task, run):
        raise ValueError("private detail")

    parts = [NamedWrapper("outer", Plain(lambda task, run, call_next: call_next(task, run)))]
    assert (await fold(parts, broken, FakeLog())(TASK, FakeRun())).failure.code == "executor.fault"
