"""A wrapper around every task: the same call of a tool that only reads, by the same caller, is answered from memory for
a while. Its phase puts it inside all checks, so that what is refused is refused, and outside of limits, so that an
answer from memory costs no quota."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass

from pml_hookspecs import (
    CallNext,
    Outcome,
    Phase,
    Run,
    Services,
    Status,
    Task,
    ToolCall,
    Wrapper,
    encode,
    hookimpl,
    replace,
    setting,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    keep_s: float = setting(60.0, "How long an answer is used again [s].", ge=0)


settings_type = Settings


@hookimpl
def pml_wrap_executor(services: Services) -> Iterable[Wrapper]:
    return [Memory(services)]


class Memory:
    phase = Phase.SUBSTITUTE

    def __init__(self, services: Services) -> None:
        self._services, self._keep_s = services, services.settings.keep_s
        self._known: dict[bytes, tuple[float, Outcome]] = {}

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        if isinstance(task, ToolCall) and not run.dry_run and self._only_reads(task):
            return self._remember(task, run, call_next)
        return call_next(task, run)

    def _only_reads(self, call: ToolCall) -> bool:
        entry = self._services.catalog.resolve(call.tool)
        return entry is not None and bool((entry.definition.get("annotations") or {}).get("readOnlyHint"))

    async def _remember(self, call: ToolCall, run: Run, call_next: CallNext) -> Outcome:
        key = encode([run.session.key, call.tool, call.arguments])
        until, known = self._known.get(key, (0.0, None))
        if known is not None and time.monotonic() < until:
            return replace(known, task_id=call.id)
        outcome = await call_next(call, run)
        if outcome.status is Status.OK:
            self._known[key] = (time.monotonic() + self._keep_s, outcome)
        return outcome
