"""The wrapper that says what each call cost."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Outcome, Phase, RawObject, ToolCall, replace

from .prices import AGENTS, BYTES_PER_TOKEN, Prices, tokens_of

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, Run, Task

    from .settings import Price, Settings

MOST_REMEMBERED = 4096
"""Tools whose prices are remembered."""


class Pricing:
    """Gives outcomes their cost, and notes tokens. Implements :class:`pml_hookspecs.Wrapper`.

    It sits right around the call, inside limits: what it says is in the outcome that budgets look at, an attempt that
    is repeated is paid for each time, and what is answered in place of the tool (rehearsals, recordings) never gets
    here, and costs nothing.
    """

    phase = Phase.ADAPT
    before = ("dry_run?",)

    def __init__(self, settings: Settings) -> None:
        self._prices, self._estimates = Prices(settings), settings.estimates
        self._known: dict[str, tuple[Price | None, bool]] = {}

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Let tasks pass that are no calls, and calls of which there is nothing to say."""
        if type(task) is not ToolCall:
            return call_next(task, run)
        try:
            price, estimated = self._known[task.tool]
        except KeyError:
            price, estimated = self._look_up(task.tool)
        if price is not None:
            return self._priced(task, run, call_next, price)
        return self._estimated(task, run, call_next) if estimated else call_next(task, run)

    def _look_up(self, tool: str) -> tuple[Price | None, bool]:
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        found = self._prices.of(tool)
        # Agents say themselves what they used.
        made = (None if found is None else found[1], self._estimates and not tool.startswith(f"{AGENTS}:"))
        self._known[tool] = made
        return made

    async def _estimated(self, task: ToolCall, run: Run, call_next: CallNext) -> Outcome:
        outcome = await call_next(task, run)
        output = outcome.output
        if type(output) is RawObject:
            given: Any = task.arguments
            size_in = len(given.raw) // BYTES_PER_TOKEN if type(given) is RawObject else tokens_of(given)
            run.note(tokens_in=size_in, tokens_out=len(output.raw) // BYTES_PER_TOKEN)
        return outcome

    async def _priced(self, task: ToolCall, run: Run, call_next: CallNext, price: Price) -> Outcome:
        outcome = await call_next(task, run)
        output = outcome.output
        # Without a result nobody knows whether it was reached at all.
        if not isinstance(output, RawObject):
            return outcome
        cost = self._prices.cost(price, task.arguments, output)
        told = self._estimates or price.result_tokens_in or price.result_tokens_out
        if told and not task.tool.startswith(f"{AGENTS}:"):
            run.note(tokens_in=cost.tokens_in, tokens_out=cost.tokens_out)
        if outcome.cost_usd is not None or cost.usd is None:
            return outcome
        return replace(outcome, cost_usd=cost.usd)
