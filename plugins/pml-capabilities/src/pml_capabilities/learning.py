"""Watches what runs, and learns from it off the request path."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CapabilityRun, CodeRun, ExecutionId, Phase, Scope, Status, ToolCall, Workflow

from .capability import SuccessfulRun, counted
from .executor import DISABLED, INVALID_INPUTS, NO_STORE, NOT_FOUND, RETIRED, id_of
from .inputs import schema_of
from .library import Library, library_of
from .normalization import LONGEST_INTENT, digest, identity, one_line, whole_ms

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, ExecutionRecord, Outcome, Run, Services, Task, ToolId

    from .settings import Settings

NOT_ITS_FAULT = frozenset({NO_STORE, NOT_FOUND, RETIRED, DISABLED, INVALID_INPUTS, "executor.missing", "task.too_deep"})
OUT_OF_BOUNDS = "code.tool_not_allowed"
"""Code of the failure when it needs a tool that it was not known to use."""
COUNTED = frozenset({Status.OK, Status.ERROR, Status.TIMED_OUT})
LEFT_BEHIND = 256
"""Most lessons waiting to be kept; more are let go."""


@dataclass(slots=True)
class ToolUseTrace:
    """A task under way inside which tools may be called."""

    above: ToolUseTrace | None
    learned_code: bool
    """Whether it runs what was learned: that is counted, not learned again."""
    tools: dict[ToolId, str] = field(default_factory=dict)

    def note(self, tool: ToolId, digest: str) -> None:
        """A tool was called inside, however deep."""
        watch: ToolUseTrace | None = self
        while watch is not None:
            watch.tools[tool] = digest
            watch = watch.above


class Learning:
    """The wrapper: outermost, so that it sees how tasks end for whoever asked.

    Code learns alike wherever it runs, on its own or in a workflow: it is the same chain. Nothing here
    changes a task or an outcome, waits for the store, or fails.
    """

    phase = Phase.OBSERVE

    def __init__(self, services: Services, settings: Settings, changed: Callable[[], None] = lambda: None) -> None:
        """``changed`` is called after what is kept has changed."""
        self._services, self._settings, self._changed = services, settings, changed
        self._watched: dict[ExecutionId | None, ToolUseTrace] = {}
        self._keeping: set[asyncio.Event] = set()
        self._one = asyncio.Lock()

    def __call__(self, task: Task, run: Run, call_next: CallNext) -> Awaitable[Outcome]:
        """Watch code, capabilities, and workflows inside of them; note the tools that they call."""
        above = self._watched.get(run.parent) if self._watched else None
        if isinstance(task, ToolCall):
            if above is not None:
                self._note(task.tool, above)
            return call_next(task, run)
        if isinstance(task, (CodeRun, CapabilityRun)) or (isinstance(task, Workflow) and above is not None):
            return self._watch(task, run, call_next, above)
        return call_next(task, run)

    def _note(self, tool: ToolId, above: ToolUseTrace) -> None:
        entry = self._services.catalog.get(tool)
        if entry is not None:
            above.note(tool, entry.digest)

    async def _watch(self, task: Task, run: Run, call_next: CallNext, above: ToolUseTrace | None) -> Outcome:
        learned_code = isinstance(task, CapabilityRun) and not task.source
        watch = self._watched[run.id] = ToolUseTrace(above, learned_code)
        try:
            outcome = await call_next(task, run)
        finally:
            self._watched.pop(run.id, None)
        try:
            if isinstance(task, CodeRun):
                self._learn(task, run, outcome, watch)
            elif isinstance(task, CapabilityRun):
                self._count(task, run, outcome)
        except Exception:  # a task does not fail because nothing was learned from it
            self._services.log.exception("nothing was learned", task=task.id, execution=run.id)
        return outcome

    def _learn(self, task: CodeRun, run: Run, outcome: Outcome, watch: ToolUseTrace) -> None:
        intent = one_line(task.intent or run.intent, LONGEST_INTENT)
        if not self._settings.learn or outcome.status is not Status.OK or run.dry_run or not intent:
            return
        if watch.above is not None and watch.above.learned_code:
            return
        # Code that works on a folder's files does not work without them.
        if task.folder is not None or not task.source.strip() or len(task.source) > self._settings.longest_code:
            return
        library = library_of(self._services)
        if library is not None:
            self._soon(self._keep, library, task, run, intent, whole_ms(outcome.duration_ms), watch.tools)

    def _count(self, task: CapabilityRun, run: Run, outcome: Outcome) -> None:
        code = "" if outcome.failure is None else outcome.failure.code
        if code == RETIRED:
            self._changed()
        if task.source or run.dry_run or code in NOT_ITS_FAULT:
            return
        if outcome.status not in COUNTED and code != OUT_OF_BOUNDS:
            return
        if (library := library_of(self._services)) is not None:
            id = id_of(task.capability_id, self._services, self._settings)
            self._soon(self._add_up, library, id, digest(task.inputs), outcome)

    def _soon(self, work: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Do it in the background; one after the other, for they change the same documents."""
        if len(self._keeping) >= LEFT_BEHIND:
            self._services.log.warning("too much to learn at once, a lesson is let go", waiting=len(self._keeping))
            return
        done = asyncio.Event()
        self._keeping.add(done)

        async def guarded() -> None:
            try:
                async with self._one:
                    await work(*args)
                self._changed()
            except Exception:  # nobody waits for it
                self._services.log.exception("nothing was learned")
            finally:
                self._keeping.discard(done)
                done.set()

        try:
            self._services.spawn(guarded, name="learn")
        except BaseException:
            self._keeping.discard(done)
            raise

    async def _keep(
        self, library: Library, task: CodeRun, run: Run, intent: str, duration_ms: int, tools: Mapping[ToolId, str]
    ) -> None:
        record = await self._services.store.executions.get(run.id, Scope(principals=None))
        # Without a record nobody knows whether it has secrets.
        if record is None or not _as_it_was(record, task, intent):
            self._services.log.info("code is not learned: it has secrets, or no record to tell", execution=run.id)
            return
        # Not one for all who ran the same code: its intents, counts and name would tell each of the others.
        owner = "" if self._settings.shared else run.session.principal
        lesson = SuccessfulRun(
            id=await asyncio.to_thread(identity, task.language, task.source, program=task.program, owner=owner),
            code=task.source,
            language=task.language,
            program=task.program,
            intent=intent,
            principal=run.session.principal,
            duration_ms=duration_ms,
            tools=tools,
            inputs=schema_of(task.inputs),
            owner=owner,
        )
        await library.learn(lesson, keep=self._settings.keep)

    async def _add_up(self, library: Library, id: str, given: str, outcome: Outcome) -> None:
        success, duration_ms = outcome.status is Status.OK, whole_ms(outcome.duration_ms)
        await library.change(id, lambda known: counted(known, success=success, duration_ms=duration_ms, given=given))

    async def settled(self) -> None:
        """Returns when everything seen so far is kept, or given up."""
        while self._keeping:
            await next(iter(self._keeping)).wait()


def _as_it_was(record: ExecutionRecord, task: CodeRun, intent: str) -> bool:
    """Whether nothing was taken out of what the gateway recorded.

    Plugins cannot tell what is secret; the gateway's records have none. Code with a secret must not be kept, and would
    not run without it.
    """
    request = record.request
    whole = "truncated" not in request and request.get("source", task.source) == task.source
    return whole and one_line(record.intent, LONGEST_INTENT) == intent
