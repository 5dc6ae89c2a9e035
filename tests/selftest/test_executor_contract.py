"""The contract of executors catches what it is there to catch, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from xml.etree import ElementTree as ET

import pytest

DRIVERS = """
from __future__ import annotations

import asyncio
from pml_hookspecs import replace
from datetime import UTC, datetime

from pml_hookspecs import CodeRun, Failure, Outcome, Status, ToolCall, Workflow


def over(task, status=Status.OK, output=None, failure=None):
    now = datetime.now(UTC)
    return Outcome(task_id=task.id, status=status, started_at=now, duration_ms=0, output=output, failure=failure)


class Good:
    handles = frozenset({Workflow})

    async def execute(self, task, run):
        ended = await asyncio.gather(*(run.dispatch(inner) for inner in task.tasks if inner.id not in task.known))
        output = {one.task_id: one.status.value for one in ended}
        if all(one.status.good for one in ended):
            return over(task, output=output)
        if all(one.status.good or one.status is Status.INPUT_REQUIRED for one in ended):
            return over(task, Status.INPUT_REQUIRED, output, Failure("workflow.waiting", "Somebody has to look."))
        return over(task, Status.ERROR, output, Failure("workflow.failed", "Something in it failed."))


class Durable(Good):
    durable = True

    async def execute(self, task, run):
        ended = await run.dispatch(replace(task, durable=False), journal=self.keep)
        output = {"status": ended.status.value, "tasks": ended.output}
        return over(task, ended.status, output, ended.failure)

    async def keep(self, path, task, perform):
        return await perform()


class TakesAllForGood(Durable):
    async def keep(self, path, task, perform):
        return replace(await perform(), status=Status.OK, failure=None)


class RunsEverythingAgain(Good):
    async def execute(self, task, run):
        return await super().execute(replace(task, known={}), run)


class TakesWaitingForFailing(Good):
    async def execute(self, task, run):
        ended = await super().execute(task, run)
        return replace(ended, status=Status.ERROR) if ended.failure else ended


class HandlesToolCalls(Good):
    handles = frozenset({Workflow, ToolCall})


class ListsWhatItHandles(Good):
    handles = [Workflow]


class NeverEndsWell(Good):
    async def execute(self, task, run):
        ended = await super().execute(task, run)
        return replace(ended, status=Status.ERROR, failure=Failure("workflow.failed", "As ever."))


class RaisesForWhatTasksDo(Good):
    async def execute(self, task, run):
        ended = await super().execute(task, run)
        if ended.failure:
            raise RuntimeError(ended.failure.message)
        return ended


class Failing(Good):
    failure = None

    async def execute(self, task, run):
        ended = await super().execute(task, run)
        return replace(ended, failure=self.failure) if ended.failure else ended


class DoesNotSayWhy(Failing):
    pass


class HasNoCode(Failing):
    failure = Failure("Oh no!", "It broke.")


class HasNoMessage(Failing):
    failure = Failure("workflow.failed", " ")


class ForgetsTheId(Good):
    async def execute(self, task, run):
        return replace(await super().execute(task, run), task_id="workflow")


class MeasuresFractions(Good):
    async def execute(self, task, run):
        return replace(await super().execute(task, run), duration_ms=0.5)


class LivesInNoTimeZone(Good):
    async def execute(self, task, run):
        return replace(await super().execute(task, run), started_at=datetime.now())


class GivesObjects(Good):
    async def execute(self, task, run):
        ended = await super().execute(task, run)
        return replace(ended, output={**ended.output, "and": object()})


class TakesTimeOutsForErrors(Good):
    async def execute(self, task, run):
        ended = await super().execute(task, run)
        return replace(ended, output=dict.fromkeys(ended.output, "error") if ended.failure else ended.output)


class SwallowsCancellation(Good):
    async def execute(self, task, run):
        try:
            return await super().execute(task, run)
        except asyncio.CancelledError:
            return over(task, Status.CANCELLED, failure=Failure("task.cancelled", "Cancelled."))


class CleansUpSlowly(Good):
    async def execute(self, task, run):
        try:
            return await super().execute(task, run)
        except asyncio.CancelledError:
            await asyncio.sleep(3)
            raise


class LeavesTasksBehind(Good):
    async def execute(self, task, run):
        return await asyncio.shield(asyncio.ensure_future(super().execute(task, run)))


class MixesUpWhatItRuns(Good):
    async def execute(self, task, run):
        self.current = task
        await asyncio.sleep(0)
        return await super().execute(self.current, run)


class Code:
    handles = frozenset({CodeRun})

    async def execute(self, task, run):
        if any(callable(value) for value in task.inputs.values()):
            raise TypeError("inputs are data")
        return over(task, Status.ERROR, failure=Failure("code.no_runtime", f"Nothing runs {task.language} here."))


class CodeRaisesForWhatTasksDo(Code):
    async def execute(self, task, run):
        raise RuntimeError((await super().execute(task, run)).failure.message)


class CodeRunsFunctions(Code):
    async def execute(self, task, run):
        return over(task) if task.inputs else await super().execute(task, run)
"""

HEAD = """
import drivers
import pytest

from pml_testing.executor import ExecutorContract
"""

CLASS = """

class Test{name}(ExecutorContract):
    @pytest.fixture
    def executor(self):
        return drivers.{name}()
"""

FAILING = "test_a_failing_task_is_an_outcome"
APART = "test_a_time_out_is_told_apart_from_an_error"
TIMES = "test_times_are_utc_and_durations_whole_milliseconds"
CANCELLATION = "test_cancellation_propagates_and_cleans_up_in_2_s"
HUNDRED = "test_a_hundred_at_once_keep_apart"
ID = "test_the_outcome_bears_the_id_of_the_task"
AGAIN = "test_what_ran_before_is_not_run_again"
WAITS = "test_a_task_that_waits_for_somebody_makes_the_workflow_wait"
KINDS = "test_handles_some_of_the_three_kinds"

EXPECTED = {
    "Good": set(),
    "Durable": set(),
    "TakesAllForGood": {FAILING, APART, WAITS},
    "RunsEverythingAgain": {AGAIN},
    "TakesWaitingForFailing": {WAITS},
    "HandlesToolCalls": {KINDS},
    "ListsWhatItHandles": {KINDS, "test_functions_among_the_inputs_are_refused"},
    "NeverEndsWell": {"test_a_good_task_ends_ok", AGAIN, WAITS},
    "RaisesForWhatTasksDo": {FAILING, APART, WAITS},
    "DoesNotSayWhy": {FAILING, WAITS},
    "HasNoCode": {FAILING},
    "HasNoMessage": {FAILING},
    "ForgetsTheId": {ID, HUNDRED},
    "MeasuresFractions": {TIMES},
    "LivesInNoTimeZone": {TIMES},
    "GivesObjects": {"test_the_output_is_json"},
    "TakesTimeOutsForErrors": {APART},
    "SwallowsCancellation": {CANCELLATION},
    "CleansUpSlowly": {CANCELLATION},
    "LeavesTasksBehind": {CANCELLATION},
    "MixesUpWhatItRuns": {HUNDRED},
    "Code": set(),
    "CodeRaisesForWhatTasksDo": {FAILING, TIMES, HUNDRED, ID, "test_the_output_is_json"},
    "CodeRunsFunctions": {"test_functions_among_the_inputs_are_refused"},
}
"""Driver to the contract tests that it fails."""


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Driver to the tests that failed: one run of the contract over all drivers, in a process of its own."""
    folder = tmp_path_factory.mktemp("contract")
    (folder / "drivers.py").write_text(DRIVERS)
    (folder / "test_drivers.py").write_text(HEAD + "".join(CLASS.format(name=name) for name in EXPECTED))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q --import-mode=importlib\npythonpath = .\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=run.xml", "test_drivers.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    found = defaultdict(set)
    for case in ET.parse(folder / "run.xml").iter("testcase"):
        assert case.find("error") is None, done.stdout
        driver = case.attrib["classname"].rpartition(".Test")[2]
        found[driver] |= {case.attrib["name"].partition("[")[0]} if case.find("failure") is not None else set()
    return found


def test_every_driver_was_tested(failed):
    assert failed.keys() == EXPECTED.keys()


@pytest.mark.parametrize("driver", EXPECTED)
def test_a_wrong_executor_fails_exactly_the_tests_that_name_its_fault(driver, failed):
    assert failed[driver] == EXPECTED[driver]
