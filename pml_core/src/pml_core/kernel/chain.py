"""Fold the wrappers into one callable, once: the request path makes no pluggy call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import CoroutineType
from typing import Any

from pml_hookspecs import CallNext, Failure, Outcome, Run, Status, Task, Wrapper
from pml_kit.order import in_order
from pml_kit.outcomes import ended

EXECUTOR_FAULT = "The gateway failed to run the task; see the gateway's log."
HOOK = "pml_wrap_executor"
ELSEWHERE = "execution.elsewhere"
"""Code of the failure that says that another gateway runs this very execution."""
PASSING = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)
"""What ends a task from outside; all else is a fault of whoever raised it, ``SystemExit`` too."""


@dataclass(frozen=True, slots=True)
class NamedWrapper:
    """A wrapper and the plugin that contributed it."""

    plugin: str
    wrapper: Wrapper


def fault(task: Task, code: str, message: str) -> Outcome:
    """An outcome for something that broke inside the gateway."""
    return ended(task, datetime.now(UTC), Status.ERROR, failure=Failure(code, message))


class _Guard:
    """Makes sure that a part of the chain ends in an outcome, whatever happens inside it but cancellation."""

    def __init__(self, log: Any, plugin: str | None = None) -> None:
        """``plugin`` is None for the executor."""
        self._log, self._plugin = log, plugin

    async def outcome(self, pending: Awaitable[Outcome], task: Task, run: Run) -> Outcome:
        """What comes of ``pending``, waited for."""
        # Inner layers never raise but for cancellation, so whatever comes out here is this part's own fault.
        try:
            outcome: Any = await pending
        except PASSING:
            raise
        except BaseException as exc:
            return await self.failed(exc, task, run)
        if isinstance(outcome, Outcome):
            return outcome
        self._log.error(f"{self._what} returned no outcome", task=task.id, execution=run.id, plugin=self._plugin)
        return self._fault(task)

    async def failed(self, exc: BaseException, task: Task, run: Run) -> Outcome:
        """The outcome of a part that raised."""
        self._log.exception(f"{self._what} failed", task=task.id, execution=run.id, plugin=self._plugin, exc_info=exc)
        return self._fault(task)

    @property
    def _what(self) -> str:
        return "executor" if self._plugin is None else "wrapper"

    def _fault(self, task: Task) -> Outcome:
        if self._plugin is None:
            return fault(task, "executor.fault", EXECUTOR_FAULT)
        message = f"The gateway's plugin {self._plugin!r} failed; see the gateway's log."
        return fault(task, "wrapper.fault", message)


GUARDED = _Guard.outcome.__code__


def _around(wrapped: NamedWrapper, call_next: CallNext, log: Any) -> CallNext:
    wrapper, guard = wrapped.wrapper, _Guard(log, wrapped.plugin)

    def layer(task: Task, run: Run) -> Awaitable[Outcome]:
        try:
            pending = wrapper(task, run, call_next)
        except PASSING:
            raise
        except BaseException as exc:
            return guard.failed(exc, task, run)
        # What a wrapper hands on from below as it came is guarded there.
        if type(pending) is CoroutineType and pending.cr_code is GUARDED:
            return pending
        return guard.outcome(pending, task, run)

    return layer


def fold(wrappers: Iterable[NamedWrapper], innermost: CallNext, log: Any) -> CallNext:
    """One callable that runs every wrapper, outermost first, around ``innermost``."""
    guard = _Guard(log)

    def bottom(task: Task, run: Run) -> Awaitable[Outcome]:
        try:
            pending = innermost(task, run)
        except PASSING:
            raise
        except BaseException as exc:
            return guard.failed(exc, task, run)
        return guard.outcome(pending, task, run)

    chain: CallNext = bottom
    for wrapped in reversed(in_order(wrappers)[0]):
        chain = _around(wrapped, chain, log)
    return chain
