"""Fold the wrappers into one callable, once: the request path makes no pluggy call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pml_hookspecs import CallNext, Failure, Outcome, Run, Status, Task, Wrapper

EXECUTOR_FAULT = "The gateway failed to run the task; see the gateway's log."


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A wrapper and the plugin that contributed it."""

    plugin: str
    wrapper: Wrapper

    @property
    def order(self) -> tuple[int, str]:
        """Outermost first: phase, then plugin name."""
        return (int(self.wrapper.phase), self.plugin)


def ordered(wrappers: Iterable[Wrapped]) -> list[Wrapped]:
    """Outermost first."""
    return sorted(wrappers, key=lambda w: w.order)


def fault(task: Task, code: str, message: str) -> Outcome:
    """An outcome for something that broke inside the gateway."""
    now = datetime.now(UTC)
    return Outcome(task_id=task.id, status=Status.ERROR, started_at=now, duration_ms=0, failure=Failure(code, message))


def _guard(wrapped: Wrapped, call_next: CallNext, log: Any) -> CallNext:
    wrapper = wrapped.wrapper

    async def layer(task: Task, run: Run) -> Outcome:
        # Inner layers never raise but for cancellation, so whatever comes out here is this wrapper's own fault.
        try:
            outcome: Any = await wrapper(task, run, call_next)
            if isinstance(outcome, Outcome):
                return outcome
            log.error("wrapper returned no outcome; the task is refused", plugin=wrapped.plugin, task=task.id)
        except Exception:
            log.exception("wrapper failed; the task is refused", plugin=wrapped.plugin, task=task.id, execution=run.id)
        return fault(task, "wrapper.fault", f"The gateway's plugin {wrapped.plugin!r} failed; see the gateway's log.")

    return layer


def fold(wrappers: Iterable[Wrapped], innermost: CallNext, log: Any) -> CallNext:
    """One callable that runs every wrapper, outermost first, around ``innermost``."""

    async def bottom(task: Task, run: Run) -> Outcome:
        try:
            outcome: Any = await innermost(task, run)
            if isinstance(outcome, Outcome):
                return outcome
            log.error("executor returned no outcome", task=task.id, execution=run.id)
        except Exception:
            log.exception("executor failed", task=task.id, execution=run.id)
        return fault(task, "executor.fault", EXECUTOR_FAULT)

    chain: CallNext = bottom
    for wrapped in reversed(ordered(wrappers)):
        chain = _guard(wrapped, chain, log)
    return chain
