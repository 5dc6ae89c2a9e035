"""What is told of tasks before they run: by the executor that would run them, through the gateway."""

from __future__ import annotations

import asyncio
import types

import pytest

from pml_core.kernel import static_checks
from pml_hookspecs import CapabilityRun, CodeRun, Failure, MetaTool, Session, ToolCall, Workflow, hookimpl
from pml_kit.offers import STATIC_CHECKS, Verdict
from pml_testing.fakes import outcome
from pml_testing.gateway import ScriptedServer, running

pytestmark = pytest.mark.anyio
SESSION = Session(key="k")
FOUND = Verdict(checked="syntax", problems=(Failure("code.syntax", "No.", details={"line": 1}),))


class Code:
    """Says of code what the test says."""

    handles = frozenset({CodeRun})
    languages = frozenset({"lisp"})
    says = FOUND

    def __init__(self, settings=None, services=None):
        self.asked = []

    async def execute(self, task, run):
        return outcome(task.id)

    async def check(self, task, session, *, within_s):
        if isinstance(self.says, Exception):
            raise self.says
        if self.says == "nothing":
            await asyncio.Event().wait()
        return self.says


class Old:
    """An executor of a contract in which nobody checks."""

    handles = frozenset({CapabilityRun})

    def __init__(self, settings=None, services=None):
        pass

    async def execute(self, task, run):
        return outcome(task.id)


def tools():
    made = types.ModuleType("made")
    stands = MetaTool(
        definition={"name": "learned", "inputSchema": {"type": "object"}},
        task=lambda arguments: CapabilityRun(id="x", capability_id="cap-1", inputs=arguments),
    )
    made.pml_meta_tools = hookimpl(lambda services: [stands])
    return made


def gateway(says=FOUND):
    code = type("Code", (Code,), {"says": says})
    plugins = {("executor", "lisp"): code, ("executor", "old"): Old, ("hooks", "made"): tools()}
    return running({"fs": ScriptedServer(["read"])}, plugins=plugins)


async def told(made, task, within_s=1.0):
    return await made.offers.find(STATIC_CHECKS).check(task, SESSION, within_s=within_s)


def code(language="lisp"):
    return CodeRun(id="c", language=language, source="(")


async def test_the_executor_that_would_run_it_is_asked():
    async with gateway() as made:
        assert await told(made, code()) == FOUND


async def test_executors_that_cannot_tell_and_calls_of_servers_are_no_problem():
    async with gateway() as made:
        assert await told(made, CapabilityRun(id="x", capability_id="cap-1")) == Verdict()
        assert await told(made, ToolCall(id="t", tool="fs:read")) == Verdict()
        assert await told(made, ToolCall(id="t", tool="no:such")) == Verdict()


async def test_what_nobody_runs_is_a_problem():
    async with gateway() as made:
        for task in (code("prolog"), Workflow(id="w", tasks=())):
            (problem,) = (await told(made, task)).problems
            assert problem.code == "executor.missing"


async def test_a_tool_that_stands_for_a_task_becomes_it():
    async with gateway() as made:
        verdict = await told(made, ToolCall(id="t", tool="learned", arguments={"a": 1}))
    assert verdict.becomes == CapabilityRun(id="t", capability_id="cap-1", inputs={"a": 1})


@pytest.mark.parametrize("says", [RuntimeError("boom"), None, "nothing"])
async def test_an_executor_that_fails_to_tell_stops_nobody(says, monkeypatch):
    monkeypatch.setattr(static_checks, "GRACE_S", 0.01)
    async with gateway(says) as made:
        verdict = await told(made, code(), within_s=0.01)
    assert (verdict.checked, verdict.problems) == ("nothing", ())
    assert verdict.unchecked == (static_checks.LATE if says == "nothing" else static_checks.FAULT)


async def test_cancellation_of_a_check_goes_through():
    async with gateway("nothing") as made:
        checking = asyncio.ensure_future(told(made, code(), within_s=60))
        await asyncio.sleep(0.01)
        checking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await checking
