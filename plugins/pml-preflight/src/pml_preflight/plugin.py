"""The hook plugin ``preflight``: a rehearsed plan comes with a report of what is wrong with it and what it would do.

One that is to run for real is held to what the report would surely find wrong, before its first task runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, Outcome, Phase, RawObject, Status, Workflow, hookimpl, replace

from .settings import Settings

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, ExecutionId, Run, Services, Task, Wrapper

    from .examination import Preflights
    from .report import Report

NAME = "preflight"
MOST_LINES = 100
"""Largest number of mistakes that one refusal lists."""
settings_type = Settings


class Preflight:
    """Adds a report to the output of every rehearsed workflow that is not part of a rehearsed one.

    The rehearsal goes on whatever the report says. One that was refused tells why in its output, beside the report. A
    plan that is run for real, and of which something is surely wrong, is refused with everything that is.
    """

    phase = Phase.SUBSTITUTE
    after = ("dry_run?",)

    def __init__(self, services: Services) -> None:
        self._services = services
        self._made: Preflights | None = None
        self._under_way: set[ExecutionId] = set()

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Examine plans; let all else pass."""
        # A plan that is still to be made of an intent comes back here when it is.
        if not isinstance(task, Workflow) or not (task.tasks or task.mistakes):
            return call_next(task, run)
        # What a plan that has begun did is undone, and not refused.
        if run.parent in self._under_way or (not run.dry_run and (task.known or run.durable)):
            return self._within(task, run, call_next)
        return self._top(task, run, call_next) if run.dry_run else self._real(task, run, call_next)

    async def _within(self, task: Workflow, run: Run, call_next: CallNext) -> Outcome:
        self._under_way.add(run.id)
        try:
            return await call_next(task, run)
        finally:
            self._under_way.discard(run.id)

    async def _top(self, task: Workflow, run: Run, call_next: CallNext) -> Outcome:
        about = await self._report(task, run)
        outcome = await self._within(task, run, call_next)
        return with_report(outcome, about if isinstance(about, Mapping) else about.after(task, outcome).to_report())

    async def _real(self, task: Workflow, run: Run, call_next: CallNext) -> Outcome:
        wrong = await self._certain(task, run)
        if not wrong:
            return await self._within(task, run, call_next)
        failure = Failure("arguments.invalid" if task.mistakes else "workflow.invalid", refusal(wrong))
        now = datetime.now(UTC)
        return Outcome(task_id=task.id, status=Status.ERROR, started_at=now, duration_ms=0, failure=failure)

    async def _certain(self, task: Workflow, run: Run) -> Sequence[str]:
        """Lines about what is surely wrong; what cannot be examined is left to those who run it."""
        try:
            return [*task.mistakes, *await self._examiner().certain(task, run)]
        except RecursionError:
            pass
        except Exception:
            # Whoever wrote a tool's schema must not be able to stop a plan.
            self._services.log.exception("a plan could not be checked before it runs", execution=run.id)
        return task.mistakes

    async def _report(self, task: Workflow, run: Run) -> Report | Mapping[str, Any]:
        """The report, or what is told in place of one."""
        try:
            return await self._examiner().of(task, run)
        except RecursionError:
            return _unexamined("The plan is nested too deeply to be examined.")
        except Exception:
            # Whoever wrote a tool's schema must not be able to stop a rehearsal.
            self._services.log.exception("the pre-flight of a plan failed", execution=run.id)
            return _unexamined("The pre-flight failed; see the gateway's log.")

    def _examiner(self) -> Preflights:
        if self._made is None:
            from .examination import Preflights

            settings: Settings = self._services.settings or Settings()
            self._made = Preflights(self._services, settings)
        return self._made


def refusal(wrong: Sequence[str]) -> str:
    """One message for everything that is wrong with a plan."""
    count = f"{len(wrong)} mistakes" if len(wrong) > 1 else "1 mistake"
    more = [f"and {len(wrong) - MOST_LINES} more"] if len(wrong) > MOST_LINES else []
    return f"Nothing was run; the workflow has {count}:" + "".join(
        f"\n- {line}" for line in [*wrong[:MOST_LINES], *more]
    )


def _unexamined(why: str) -> Mapping[str, Any]:
    return {"text": why, "ok": False, "errors": [{"code": "preflight.failed", "message": why}]}


def with_report(outcome: Outcome, about: Mapping[str, Any]) -> Outcome:
    """``outcome`` with a report first in its output, in few bytes; without an output, with what its failure says."""
    output: Any = outcome.output
    if output is None:
        output = {"status": outcome.status.value, "dry_run": True}
        if outcome.failure is not None:
            failure = {"code": outcome.failure.code, "message": outcome.failure.message}
            output |= {"status": "failed", "error": failure}
    return replace(outcome, output=RawObject.of({NAME: about, **output})) if isinstance(output, Mapping) else outcome


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    """The wrapper."""
    return [Preflight(services)]
