"""The contracts of what tells of tasks before they run catch what they are there to catch, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from xml.etree import ElementTree as ET

import pytest

DRIVERS = """
from __future__ import annotations

import ast
import asyncio
from pml_hookspecs import replace
from datetime import UTC, datetime

from pml_hookspecs import CodeRun, Failure, Outcome, Phase, Status, ToolCall
from pml_kit.offers import Verdict


class Good:
    handles = frozenset({CodeRun})

    async def execute(self, task, run):
        raise NotImplementedError

    async def check(self, task, session, *, within_s):
        if not isinstance(task, CodeRun):
            return Verdict()
        await asyncio.sleep(0)
        if within_s < 0.01:
            return self.late()
        return self.told(task, self.wrong_with(task))

    def late(self):
        return Verdict(unchecked="There was no time.")

    def wrong_with(self, task):
        try:
            ast.parse(task.source)
        except SyntaxError as exc:
            return exc

    def told(self, task, wrong):
        if wrong is None:
            return Verdict(checked="syntax")
        return Verdict(checked="syntax", problems=[self.failure(wrong)])

    def failure(self, wrong):
        return Failure("code.syntax", wrong.msg, details={"line": wrong.lineno})


class FindsNothing(Good):
    def wrong_with(self, task):
        return None


class DoesNotLook(Good):
    def told(self, task, wrong):
        return replace(super().told(task, wrong), checked="nothing")


class CriesWolf(Good):
    def wrong_with(self, task):
        found = super().wrong_with(task)
        return SyntaxError("I do not like it", ("", 1, 1, "")) if found is None and "await" in task.source else found


class DoubtsEverything(Good):
    def told(self, task, wrong):
        return replace(super().told(task, wrong), doubts=[Failure("code.type", "Who knows?")])


class ForgetsTheLine(Good):
    def failure(self, wrong):
        return replace(super().failure(wrong), details={})


class CountsFromZero(Good):
    def failure(self, wrong):
        return replace(super().failure(wrong), details={"line": wrong.lineno - 1})


class HasNoCode(Good):
    def failure(self, wrong):
        return replace(super().failure(wrong), code="oops")


class HasNoMessage(Good):
    def failure(self, wrong):
        return replace(super().failure(wrong), message="")


class RunsIt(Good):
    async def check(self, task, session, *, within_s):
        if isinstance(task, CodeRun) and "while True" in task.source:
            try:
                async with asyncio.timeout(0.2):
                    await asyncio.Event().wait()
            except TimeoutError:
                return Verdict(checked="syntax", unchecked="It did not end.")
        return await super().check(task, session, within_s=within_s)


class ReadsValues(Good):
    def wrong_with(self, task):
        found = super().wrong_with(task)
        return SyntaxError("no reference", ("", 1, 1, "")) if "{{" in str(task.inputs) else found


class PretendsToHaveLooked(Good):
    def late(self):
        return Verdict()


class GuessesInHaste(Good):
    def late(self):
        return Verdict(problems=[Failure("code.syntax", "Probably.")], unchecked="There was no time.")


class SwallowsCancellation(Good):
    async def check(self, task, session, *, within_s):
        try:
            return await super().check(task, session, within_s=within_s)
        except asyncio.CancelledError:
            return Verdict()


class MixesUpWhatItChecks(Good):
    async def check(self, task, session, *, within_s):
        if isinstance(task, CodeRun):
            self.current = task
            await asyncio.sleep(0)
            task = self.current
        return await super().check(task, session, within_s=within_s)


class FailsForUnknownKinds(Good):
    async def check(self, task, session, *, within_s):
        task.source
        return await super().check(task, session, within_s=within_s)


class Asks:
    phase = Phase.APPROVE

    def __init__(self):
        self.approved = 0

    async def __call__(self, task, run, call_next):
        if await self.would_ask(task, run):
            failure = Failure("approval.required", "Wait.")
            now = datetime.now(UTC)
            status = Status.INPUT_REQUIRED
            return Outcome(task_id=task.id, status=status, started_at=now, duration_ms=0, failure=failure)
        return await call_next(task, run)

    async def would_ask(self, task, above):
        return "it is dangerous" if isinstance(task, ToolCall) else ""


class DoesNotSayWhy(Asks):
    async def would_ask(self, task, above):
        return " " if isinstance(task, ToolCall) else ""


class AsksSomebody(Asks):
    async def would_ask(self, task, above):
        if above.replies and isinstance(task, ToolCall):
            await above.ask("elicitation/create", {})
        return await super().would_ask(task, above)


class TriesItOut(Asks):
    async def would_ask(self, task, above):
        if above.dry_run and isinstance(task, ToolCall):
            await above.dispatch(task)
        return await super().would_ask(task, above)


class CountsItsOwnQuestions(Asks):
    async def would_ask(self, task, above):
        self.approved += 1
        why = await super().would_ask(task, above)
        return f"{why} ({self.approved})" if why else ""


class OnlySaysSo(Asks):
    async def __call__(self, task, run, call_next):
        return await call_next(task, run)


class AsksAboutAnything(Asks):
    async def would_ask(self, task, above):
        return "it is dangerous"
"""

HEAD = """
import drivers
import pytest

from pml_hookspecs import CodeRun, ToolCall
from pml_testing.foresight import AskerContract, CheckerContract

RIGHT = ["return 1", "x = await half(a)\\nreturn x", "import re"]
WRONG = [("return (", 1), ("x = 1\\ny = = 2", 2)]


def code(source):
    return CodeRun(id="c", language="python", source=source, inputs={"a": 1})
"""

CHECKER = """

class Test{name}(CheckerContract):
    @pytest.fixture
    def checker(self):
        return drivers.{name}()

    @pytest.fixture
    def right(self):
        return [code(source) for source in RIGHT]

    @pytest.fixture
    def wrong(self):
        return [(code(source), line) for source, line in WRONG]

    @pytest.fixture
    def endless(self):
        return code("while True:\\n    pass")
"""
ASKER = """

class Test{name}(AskerContract):
    @pytest.fixture
    def asker(self):
        return drivers.{name}()

    @pytest.fixture
    def asked_about(self):
        return ToolCall(id="a", tool="s:drop")
"""

RIGHT = "test_what_is_right_is_not_found_wrong"
LINE = "test_what_is_wrong_is_found_in_its_line"
SAYS = "test_says_what_is_wrong"
TIME = "test_says_when_there_was_no_time"
APART = "test_many_at_once_keep_apart"
VALUES = "test_values_of_inputs_do_not_count"
NOTHING = "test_tells_nothing_of_what_it_does_not_know"
WHY = "test_tells_why_it_would_ask"
NOBODY = "test_asks_nobody_and_runs_nothing_to_tell"

CHECKERS = {
    "Good": set(),
    "FindsNothing": {LINE, APART},
    "DoesNotLook": {RIGHT},
    "CriesWolf": {RIGHT, VALUES, APART},
    "DoubtsEverything": {RIGHT},
    "ForgetsTheLine": {LINE},
    "CountsFromZero": {LINE},
    "HasNoCode": {SAYS},
    "HasNoMessage": {SAYS},
    "RunsIt": {"test_runs_nothing"},
    "ReadsValues": {VALUES},
    "PretendsToHaveLooked": {TIME},
    "GuessesInHaste": {TIME},
    "SwallowsCancellation": {"test_cancellation_propagates"},
    "MixesUpWhatItChecks": {LINE, APART},
    "FailsForUnknownKinds": {NOTHING},
}
ASKERS = {
    "Asks": set(),
    "DoesNotSayWhy": {WHY},
    "AsksSomebody": {NOBODY},
    "TriesItOut": {NOBODY},
    "CountsItsOwnQuestions": {"test_tells_the_same_again"},
    "OnlySaysSo": {"test_what_it_would_ask_about_does_not_run_unasked"},
    "AsksAboutAnything": {"test_tells_nothing_of_an_unknown_kind_of_task"},
}
EXPECTED = {**CHECKERS, **ASKERS}
"""Driver to the contract tests that it fails."""


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Driver to the tests that failed: one run of the contracts over all drivers, in a process of its own."""
    folder = tmp_path_factory.mktemp("contract")
    classes = [(CHECKER if name in CHECKERS else ASKER).format(name=name) for name in EXPECTED]
    (folder / "drivers.py").write_text(DRIVERS)
    (folder / "test_drivers.py").write_text(HEAD + "".join(classes))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -q --import-mode=importlib\npythonpath = .\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=run.xml", "test_drivers.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
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
def test_a_wrong_driver_fails_exactly_the_tests_that_name_its_fault(driver, failed):
    assert failed[driver] == EXPECTED[driver]
