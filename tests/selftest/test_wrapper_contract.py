"""The contract of wrappers catches what it is there to catch, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from xml.etree import ElementTree as ET

import pytest

WRAPPERS = """
from __future__ import annotations

import asyncio
import time
from pml_hookspecs import replace
from datetime import UTC, datetime

from pml_hookspecs import Failure, Outcome, Phase, Status, ToolCall
from pml_testing.fakes import FakeRun


class Good:
    phase = Phase.AUTHORIZE

    async def __call__(self, task, run, call_next):
        if isinstance(task, ToolCall) and task.tool == "s:forbidden":
            return self.refusal(task)
        return await self.passed(task, run, call_next)

    def refusal(self, task):
        failure = Failure("policy.denied", "Not this one.")
        now = datetime.now(UTC)
        return Outcome(task_id=task.id, status=Status.DENIED, started_at=now, duration_ms=0, failure=failure)

    async def passed(self, task, run, call_next):
        return await call_next(task, run)


class HasNoPhase(Good):
    phase = 5


class FailsForUnknownKinds(Good):
    async def passed(self, task, run, call_next):
        return await call_next(task, run) if task.tool else None


class RefusesUnknownKinds(Good):
    async def passed(self, task, run, call_next):
        return await call_next(task, run) if isinstance(task, ToolCall) else self.refusal(task)


class CopiesCalls(Good):
    async def passed(self, task, run, call_next):
        return await call_next(replace(task) if isinstance(task, ToolCall) else task, run)


class MakesItsOwnRun(Good):
    async def passed(self, task, run, call_next):
        return await call_next(task, FakeRun())


class TouchesUpOutcomes(Good):
    async def passed(self, task, run, call_next):
        return replace(await call_next(task, run), duration_ms=1)


class SwallowsCancellation(Good):
    async def passed(self, task, run, call_next):
        try:
            return await call_next(task, run)
        except asyncio.CancelledError:
            return self.refusal(task)


class ShieldsFromCancellation(Good):
    async def passed(self, task, run, call_next):
        try:
            return await asyncio.shield(call_next(task, run))
        except asyncio.CancelledError:
            await asyncio.sleep(3)
            raise


class TriesAgain(Good):
    async def passed(self, task, run, call_next):
        ended = await call_next(task, run)
        return ended if ended.status.good else await call_next(task, run)


class Retries(TriesAgain):
    phase = Phase.RETRY


class RunsTwiceInARehearsal(Good):
    async def passed(self, task, run, call_next):
        if run.dry_run:
            await call_next(task, run)
        return await call_next(task, run)


class DeniesWithoutFailure(Good):
    def refusal(self, task):
        return replace(super().refusal(task), failure=None)


class DeniesWithoutCode(Good):
    def refusal(self, task):
        return replace(super().refusal(task), failure=Failure("", "Not this one."))


class DeniesWithoutMessage(Good):
    def refusal(self, task):
        return replace(super().refusal(task), failure=Failure("policy.denied", ""))


class ForgetsTheId(Good):
    def refusal(self, task):
        return replace(super().refusal(task), task_id="")


class LivesInNoTimeZone(Good):
    def refusal(self, task):
        return replace(super().refusal(task), started_at=datetime.now())


class MeasuresFractions(Good):
    def refusal(self, task):
        return replace(super().refusal(task), duration_ms=0.5)


class RedactsInPlace(Good):
    async def passed(self, task, run, call_next):
        ended = await call_next(task, run)
        for block in (ended.output or {}).get("content", []):
            block["text"] = "***" if "text" in block else ""
        return ended


class FillsInArguments(Good):
    async def passed(self, task, run, call_next):
        if isinstance(task, ToolCall):
            task.arguments["also"] = 1
        return await call_next(task, run)


class LeaksATask(Good):
    async def passed(self, task, run, call_next):
        self.kept = asyncio.ensure_future(asyncio.sleep(3600))
        return await call_next(task, run)


class IsSlow(Good):
    async def passed(self, task, run, call_next):
        until = time.perf_counter() + 100e-6
        while time.perf_counter() < until:
            pass
        return await call_next(task, run)


class BlocksRefusals(Good):
    def refusal(self, task):
        time.sleep(0.2)
        return super().refusal(task)
"""

HEAD = """
import wrappers
import pytest

from pml_hookspecs import ToolCall
from pml_testing.wrapper import WrapperContract
"""

CLASS = """

class Test{name}(WrapperContract):
    @pytest.fixture
    def wrapper(self):
        return wrappers.{name}()

    @pytest.fixture
    def tasks(self):
        return [ToolCall(id="a", tool="s:allowed"), ToolCall(id="f", tool="s:forbidden")]
"""

CALLS = "test_passes_on_a_call_without_match_unchanged"
UNKNOWN = "test_passes_on_an_unknown_kind_of_task_unchanged"
CANCELLATION = "test_lets_cancellation_through"
ONCE = "test_calls_the_next_at_most_once_unless_it_retries"
COMPLETE = "test_an_answer_of_its_own_is_complete"
DENIAL = "test_a_denial_carries_code_and_message"
LEFT_AS_IT_IS = "test_what_came_in_and_what_came_back_are_left_as_they_are"

EXPECTED = {
    "Good": set(),
    "HasNoPhase": {"test_has_a_phase"},
    "FailsForUnknownKinds": {UNKNOWN},
    "RefusesUnknownKinds": {UNKNOWN},
    "CopiesCalls": {CALLS},
    "MakesItsOwnRun": {CALLS, UNKNOWN},
    "TouchesUpOutcomes": {CALLS, UNKNOWN},
    "SwallowsCancellation": {CANCELLATION},
    "ShieldsFromCancellation": {CANCELLATION},
    "TriesAgain": {ONCE},
    "Retries": set(),
    "RunsTwiceInARehearsal": {ONCE},
    "DeniesWithoutFailure": {DENIAL},
    "DeniesWithoutCode": {DENIAL},
    "DeniesWithoutMessage": {DENIAL},
    "ForgetsTheId": {COMPLETE},
    "LivesInNoTimeZone": {COMPLETE},
    "MeasuresFractions": {COMPLETE},
    "BlocksRefusals": {"test_keeps_the_event_loop_for_no_task"},
    "RedactsInPlace": {LEFT_AS_IT_IS},
    "FillsInArguments": {LEFT_AS_IT_IS},
    "LeaksATask": {"test_leaves_no_task_behind"},
    "IsSlow": {"test_takes_at_most_50_us_of_its_own"},
}
"""Wrapper to the contract tests that it fails."""


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Wrapper to the tests that failed: one run of the contract over all wrappers, in a process of its own."""
    folder = tmp_path_factory.mktemp("contract")
    (folder / "wrappers.py").write_text(WRAPPERS)
    (folder / "test_wrappers.py").write_text(HEAD + "".join(CLASS.format(name=name) for name in EXPECTED))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q --import-mode=importlib\npythonpath = .\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=run.xml", "test_wrappers.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    found = defaultdict(set)
    for case in ET.parse(folder / "run.xml").iter("testcase"):
        assert case.find("error") is None, done.stdout
        wrapper = case.attrib["classname"].rpartition(".Test")[2]
        found[wrapper] |= {case.attrib["name"].partition("[")[0]} if case.find("failure") is not None else set()
    return found


def test_every_wrapper_was_tested(failed):
    assert failed.keys() == EXPECTED.keys()


@pytest.mark.parametrize("wrapper", EXPECTED)
def test_a_wrong_wrapper_fails_exactly_the_tests_that_name_its_fault(wrapper, failed):
    assert failed[wrapper] == EXPECTED[wrapper]
