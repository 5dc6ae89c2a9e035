"""The wrapper that keeps tasks to their limits."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pml_hookspecs import Failure, Outcome, Phase, ServerRequest, Status, ToolCall

from .budgets import Budgets, Costs
from .outage import Outage
from .rules import Limits, Rules
from .slots import SharedSlots, Slots

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, Run, Services, Task

    from .rates import Rates, SharedRates
    from .rules import Limit
    from .settings import Settings

QUEUED_AGAIN_S = 1.0
"""When to try again what found no slot: nobody knows when one is free [s]."""


class Limiter:
    """Keeps each task to all rules that fit it.

    A task that no rule fits, or rates only that are counted in memory, is handed on without a coroutine.
    """

    phase = Phase.LIMIT

    def __init__(self, services: Services, settings: Settings) -> None:
        outage = Outage(services)
        self.rules = Rules(settings.rules)
        self.slots = Slots()
        self.budgets = Budgets(services, outage, shared=settings.shared)
        self.rates: Rates | None = None
        self.shared_rates: SharedRates | None = None
        self.shared_slots = SharedSlots(services, self.slots, outage) if settings.shared else None
        if any(rule.rate for rule in settings.rules.values()):
            from .rates import Rates, SharedRates

            self.rates = Rates()
            self.shared_rates = SharedRates(services, self.rates, outage) if settings.shared else None
        budgeted = any(rule.daily_usd for rule in settings.rules.values())
        self._costs = Costs() if budgeted else None

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Let pass what keeps to its limits."""
        limits = self.rules.of(task, run.session)
        if self._costs is not None:
            return self._counted(task, run, call_next, limits, self._costs)
        if limits is None:
            return call_next(task, run)
        if limits.slots or limits.time_out is not None or self.shared_rates is not None or self.rates is None:
            return self._limited(task, run, call_next, limits)
        refused = self.rates.refused(limits.rates)
        return call_next(task, run) if refused is None else _finished_outcome(task, _too_often(task, *refused))

    async def _counted(self, task: Task, run: Run, call_next: CallNext, limits: Limits | None, costs: Costs) -> Outcome:
        """Run it and count what it cost."""
        outcome: Outcome | None = None
        costs.begins(run)
        try:
            outcome = await (call_next(task, run) if limits is None else self._limited(task, run, call_next, limits))
        finally:
            cost_usd = costs.ends(run, outcome)
        if cost_usd and limits is not None and limits.budgets:
            await self.budgets.spend(limits.budgets, cost_usd)
        return outcome

    async def _limited(self, task: Task, run: Run, call_next: CallNext, limits: Limits) -> Outcome:
        spent = await self.budgets.refused(limits.budgets) if limits.budgets else None
        if spent is not None:
            return await _finished_outcome(task, _too_dear(task, *spent))
        try:
            async with asyncio.timeout(None) as scope, AsyncExitStack() as taken:
                return await self._in_slots(task, run, call_next, limits, scope, taken)
        except TimeoutError:
            if not scope.expired():
                raise
            return await _finished_outcome(task, _lost(task, limits.slots[0]), Status.ERROR)

    async def _in_slots(
        self,
        task: Task,
        run: Run,
        call_next: CallNext,
        limits: Limits,
        scope: asyncio.Timeout,
        taken: AsyncExitStack,
    ) -> Outcome:
        for limit in limits.slots:
            slots = self.shared_slots or self.slots
            token = await slots.take(limit, scope)
            if token is None:
                return await _finished_outcome(task, _too_many(task, limit))
            taken.push_async_callback(slots.give_back, limit, token)
        refused = await self._too_often(limits)
        if refused is not None:
            return await _finished_outcome(task, _too_often(task, *refused))
        return await _in_time(task, run, call_next, limits.time_out)

    async def _too_often(self, limits: Limits) -> tuple[Limit, float] | None:
        if self.shared_rates is not None:
            return await self.shared_rates.refused(limits.rates)
        return None if self.rates is None else self.rates.refused(limits.rates)


async def _in_time(task: Task, run: Run, call_next: CallNext, limit: Limit | None) -> Outcome:
    if limit is None:
        return await call_next(task, run)
    try:
        async with asyncio.timeout(limit.rule.time_out_s) as clock:
            return await call_next(task, run)
    except TimeoutError:
        if not clock.expired():
            raise
        message = f"{_what(task)} took longer than the {limit.rule.time_out_s:g} s that the rule {limit.name!r} allows."
        failure = _failure("limit.time_out", message, limit, limit.rule.time_out_s, 0.0)
        return await _finished_outcome(task, failure, Status.TIMED_OUT, round(limit.rule.time_out_s * 1000))


def _too_often(task: Task, limit: Limit, wait_s: float) -> Failure:
    message = f"The rule {limit.name!r} allows {limit.rule.rate}{_for(limit)}, and that is used up: {_what(task)}."
    return _failure("limit.rate", message, limit, limit.rule.rate, wait_s)


def _too_many(task: Task, limit: Limit) -> Failure:
    rule = limit.rule
    queued = f", and for {rule.queue_s:g} s none of them ended" if rule.queue_s else ""
    message = f"The rule {limit.name!r} allows {rule.concurrency} at a time{_for(limit)}{queued}: {_what(task)}."
    return _failure("limit.concurrency", message, limit, rule.concurrency, QUEUED_AGAIN_S)


def _lost(task: Task, limit: Limit) -> Failure:
    message = f"This gateway stood still, and another one gave the slot of {_what(task)} away: it was ended."
    return _failure("limit.lost", message, limit, limit.rule.concurrency, 0.0)


def _too_dear(task: Task, limit: Limit, spent_usd: float, wait_s: float) -> Failure:
    rule = limit.rule
    message = (
        f"The rule {limit.name!r} allows {rule.daily_usd:g} USD a day{_for(limit)}, and {spent_usd:g} USD were spent "
        f"today (UTC): {_what(task)}."
    )
    return _failure("limit.budget", message, limit, rule.daily_usd, wait_s)


def _failure(code: str, message: str, limit: Limit, allowed: str | float, wait_s: float) -> Failure:
    retry_after_s = math.ceil(wait_s * 1000) / 1000
    if retry_after_s:
        message += f" Try again in {math.ceil(retry_after_s)} s."
    details = {"rule": limit.name, "for": dict(limit.whose), "allowed": allowed, "retry_after_s": retry_after_s}
    return Failure(code, message, retryable=True, details=details)


def _for(limit: Limit) -> str:
    return f" for {limit.description}" if limit.whose else ""


def _what(task: Task) -> str:
    if isinstance(task, ServerRequest):
        return f"{task.method} of {task.name}"
    return task.tool if isinstance(task, ToolCall) else f"this {type(task).__name__}"


async def _finished_outcome(
    task: Task, failure: Failure, status: Status = Status.DENIED, duration_ms: int = 0
) -> Outcome:
    return Outcome(
        task_id=task.id, status=status, started_at=datetime.now(UTC), duration_ms=duration_ms, failure=failure
    )
