"""The contracts of what tells of tasks before they run: executors that check, and wrappers that would ask.

Subclass beside :class:`~pml_testing.executor.ExecutorContract` or :class:`~pml_testing.wrapper.WrapperContract`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pml_hookspecs import Session, replace
from pml_kit.offers import Verdict

from .fakes import FakeRun
from .wrapper import Next, UnknownTask

if TYPE_CHECKING:
    from pml_hookspecs import CodeRun, Task
    from pml_kit.offers import Asker, Checker

CODE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+")
"""What codes of failures look like: ``code.syntax``."""
ENOUGH_S = 240.0
"""For a check of anything, on a machine that has much else to do [s]."""
CLEAN_UP_S = 5.0
DEPTHS = ("nothing", "syntax", "types")


async def _verdicts(checker: Checker, tasks: Sequence[CodeRun], session: Session) -> Sequence[Verdict]:
    return await asyncio.gather(*(checker.check(task, session, within_s=ENOUGH_S) for task in tasks))


@pytest.mark.anyio
class CheckerContract:
    """Tests of an executor of code that can tell what is wrong with it before it runs."""

    @pytest.fixture
    def checker(self) -> Checker:
        """The executor to test."""
        raise NotImplementedError("override: return the executor to test")

    @pytest.fixture
    def right(self) -> Sequence[CodeRun]:
        """Code that is right, the more unusual the better; some with inputs."""
        raise NotImplementedError("override: return code that is right")

    @pytest.fixture
    def wrong(self) -> Sequence[tuple[CodeRun, int]]:
        """Code that fails as it stands, and in which line, from 1."""
        raise NotImplementedError("override: return code that is wrong, with the line")

    @pytest.fixture
    def endless(self) -> CodeRun:
        """Code that is right, and would never end."""
        raise NotImplementedError("override: return code that runs for ever")

    @pytest.fixture
    def session(self) -> Session:
        """Whoever asks."""
        return Session(key="contract")

    async def test_what_is_right_is_not_found_wrong(
        self, checker: Checker, right: Sequence[CodeRun], session: Session
    ) -> None:
        for task, verdict in zip(right, await _verdicts(checker, right, session), strict=True):
            assert not verdict.problems, f"{task.source!r}: {verdict.problems}"
            assert not verdict.doubts, f"{task.source!r}: {verdict.doubts}"
            assert verdict.checked in DEPTHS[1:], f"{task.source!r} was not looked at"

    async def test_what_is_wrong_is_found_in_its_line(
        self, checker: Checker, wrong: Sequence[tuple[CodeRun, int]], session: Session
    ) -> None:
        found = await _verdicts(checker, [task for task, _ in wrong], session)
        for (task, line), verdict in zip(wrong, found, strict=True):
            assert verdict.problems, f"{task.source!r}: nothing was found; {verdict.unchecked}"
            assert verdict.problems[0].details.get("line") == line, f"{task.source!r}"

    async def test_says_what_is_wrong(
        self, checker: Checker, wrong: Sequence[tuple[CodeRun, int]], session: Session
    ) -> None:
        for verdict in await _verdicts(checker, [task for task, _ in wrong], session):
            for failure in (*verdict.problems, *verdict.doubts):
                assert CODE.fullmatch(failure.code), f"no code such as code.syntax: {failure.code!r}"
                assert failure.message.strip()

    async def test_runs_nothing(self, checker: Checker, endless: CodeRun, session: Session) -> None:
        async with asyncio.timeout(2 * ENOUGH_S):
            (verdict,) = await _verdicts(checker, [endless], session)
        assert not verdict.unchecked, f"it did not end in time: {verdict.unchecked}"
        assert not verdict.problems

    async def test_values_of_inputs_do_not_count(
        self, checker: Checker, right: Sequence[CodeRun], session: Session
    ) -> None:
        values: Sequence[Any] = (None, "{{earlier.result}}", {"a": [1]})
        tasks = [replace(task, inputs=dict.fromkeys(task.inputs, value)) for task in right[:4] for value in values]
        for task, verdict in zip(tasks, await _verdicts(checker, tasks, session), strict=True):
            assert not verdict.problems, f"{task.source!r} with {task.inputs!r}: {verdict.problems}"

    async def test_says_when_there_was_no_time(
        self, checker: Checker, right: Sequence[CodeRun], session: Session
    ) -> None:
        # Sources that were looked at before may be known.
        tasks = [replace(task, source=f"{task.source}\n\n") for task in right[:3]]
        in_haste = [await checker.check(task, session, within_s=0.001) for task in tasks]
        for task, hasty, whole in zip(tasks, in_haste, await _verdicts(checker, tasks, session), strict=True):
            said = bool(hasty.unchecked)
            assert hasty.checked == whole.checked or said, f"{task.source!r}: {hasty.checked}, and does not say why"
            assert not hasty.problems, f"{task.source!r}: {hasty.problems}"

    async def test_cancellation_propagates(
        self, checker: Checker, right: Sequence[CodeRun], session: Session
    ) -> None:  # fmt: skip
        for steps in (0, 1, 5):
            task = replace(right[0], source=f"{right[0].source}\n" + "\n" * steps)
            checking = asyncio.ensure_future(checker.check(task, session, within_s=ENOUGH_S))
            for _ in range(steps + 1):
                await asyncio.sleep(0)
            if not checking.done():
                checking.cancel()
                await asyncio.wait([checking], timeout=CLEAN_UP_S)
                assert checking.cancelled(), f"cancellation was swallowed or took more than {CLEAN_UP_S:g} s"

    async def test_many_at_once_keep_apart(
        self, checker: Checker, right: Sequence[CodeRun], wrong: Sequence[tuple[CodeRun, int]], session: Session
    ) -> None:
        found = await _verdicts(checker, [*right, *(task for task, _ in wrong)], session)
        assert [bool(one.problems) for one in found] == [*[False] * len(right), *[True] * len(wrong)]

    async def test_tells_nothing_of_what_it_does_not_know(self, checker: Checker, session: Session) -> None:
        unknown: Any = UnknownTask(id="unknown")
        assert await checker.check(unknown, session, within_s=1.0) == Verdict()


@pytest.mark.anyio
class AskerContract:
    """Tests of a wrapper that can tell beforehand what a human would have to look at."""

    @pytest.fixture
    def asker(self) -> Asker:
        """The wrapper to test; it would ask about ``asked_about``."""
        raise NotImplementedError("override: return the wrapper to test")

    @pytest.fixture
    def asked_about(self) -> Task:
        """A task that a human would have to look at before it runs in a plan."""
        raise NotImplementedError("override: return a task that this wrapper would ask about")

    @pytest.fixture
    def above(self) -> FakeRun:
        """The rehearsal of the plan that the task is part of."""
        return FakeRun(dry_run=True)

    async def test_tells_why_it_would_ask(self, asker: Asker, asked_about: Task, above: FakeRun) -> None:
        why = await asker.would_ask(asked_about, above)
        assert isinstance(why, str)
        assert why.strip(), f"it would ask about {asked_about.id!r} and does not say why"

    async def test_asks_nobody_and_runs_nothing_to_tell(
        self, asker: Asker, asked_about: Task, above: FakeRun
    ) -> None:  # fmt: skip
        # Somebody could be asked, and would agree to anything.
        above.replies = [{"action": "accept", "content": {"approve": True}}] * 3
        await asker.would_ask(asked_about, above)
        assert above.asked == []
        assert above.dispatched == []

    async def test_tells_the_same_again(self, asker: Asker, asked_about: Task, above: FakeRun) -> None:
        first = await asker.would_ask(asked_about, above)
        assert await asker.would_ask(asked_about, above) == first

    async def test_what_it_would_ask_about_does_not_run_unasked(
        self, asker: Asker, asked_about: Task, above: FakeRun
    ) -> None:  # fmt: skip
        await asker.would_ask(asked_about, above)
        following = Next()
        await asker(asked_about, FakeRun(session=above.session, parent=above.id), following)
        assert not following.calls, f"{asked_about.id!r} ran, though nobody could be asked"

    async def test_tells_nothing_of_an_unknown_kind_of_task(self, asker: Asker, above: FakeRun) -> None:
        unknown: Any = UnknownTask(id="unknown")
        assert await asker.would_ask(unknown, above) == ""
