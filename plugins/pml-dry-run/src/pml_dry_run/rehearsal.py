"""In a dry run, answers in place of everything that could have an effect."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import (
    CapabilityRun,
    CodeRun,
    Failure,
    Outcome,
    PluginTask,
    ServerRequest,
    Status,
    ToolCall,
    Workflow,
)
from pml_kit.mcp.effects import only_reads
from pml_kit.offers import STATIC_CHECKS, required

from .answers import Answer, Answers
from .effects import Effect, Match, effect_of, effects_of_code, match, reads
from .labels import META, WOULD_DIFFER, in_error, label, labelled
from .reads import Reads
from .settings import LEVELS, META_LEVEL, Level, Settings, asked_level, without_level

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, CatalogEntry, ExecutionId, Run, Services, Task

    from .outputs import Output, Outputs
    from .recordings import Recordings

CHECK_S = 1.0
"""How long it may take to find out which code a capability is [s]."""
MISSED = "Nothing tells what {} would return: no recording of it as it is defined now, and no output schema."
REMEDY = " Call it once for real, or rehearse with the level warn or loose."
NOT_RUN_BY_PLUGIN = "Nothing tells what {} would return: it is not run in a dry run."
NOT_RUN = "Code is not run in a dry run, and nothing tells what {} would return."
CALLS = "Code is not run in a dry run: the tools that it calls are not rehearsed with it."


class Rehearsal:
    """What one rehearsal has done so far: all that happens under the outermost task that is rehearsed."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        """The effects of the steps so far, in order."""

    def related(self, task: ToolCall, entry: CatalogEntry) -> list[tuple[Match, Effect]]:
        """What of it the call may be about, in order."""
        return [(kind, effect) for effect in self.effects if (kind := match(effect, task, entry)) != "none"]


class Rehearsals:
    """Keeps every task of a dry run from having effects.

    A workflow goes on, and its tasks come back here one by one. So do the gateway's own tools that only read. Where
    the rehearsal reads for real, so do tools that say that they only read. All else is answered with a result that
    says where it comes from.
    """

    def __init__(self, services: Services, settings: Settings, recordings: Recordings, outputs: Outputs) -> None:
        self._services, self._catalog = services, services.catalog
        self._settings, self._outputs = settings, outputs
        self._answers = Answers(recordings)
        self._reads = Reads(self._answers)
        self._open: dict[ExecutionId, Rehearsal] = {}
        """Rehearsals by the executions in them that are under way: what runs inside names its parent."""

    async def answer(self, task: Task, run: Run, call_next: CallNext) -> Outcome:
        """How a task of a dry run ends."""
        rehearsal = (None if run.parent is None else self._open.get(run.parent)) or Rehearsal()
        self._open[run.id] = rehearsal
        try:
            if isinstance(task, (Workflow, ServerRequest)):  # of the latter the core lets nothing through but reading
                return await call_next(task, run)
            level = _level(task, run, self._settings)
            if level is None:
                return _finished_outcome(
                    task, Failure("dry_run.level", f"_meta[{META_LEVEL!r}] must be one of {', '.join(LEVELS)}")
                )
            if not isinstance(task, ToolCall):
                return await self._code(task, run, rehearsal, level)
            return await self._call(task, run, call_next, rehearsal, level)
        finally:
            self._open.pop(run.id, None)

    async def _code(self, task: Task, run: Run, rehearsal: Rehearsal, level: Level) -> Outcome:
        """Code, or a capability, is not run. What it might have changed is remembered all the same."""
        code = await self._code_of(task, run)
        output = await self._outputs.of(task, run.session)
        if code is not None:
            if output is None:
                output = await self._outputs.of(code, run.session)
            rehearsal.effects += effects_of_code(task, run.path, code, self._catalog, run.session)
        return _unknown(task, level) if output is None else _returned(task, output)

    async def _code_of(self, task: Task, run: Run) -> CodeRun | None:
        """The code that a task comes to; None where nobody says."""
        if isinstance(task, CodeRun):
            return task
        if not isinstance(task, CapabilityRun):
            return None
        if task.source:
            return CodeRun(id=task.id, language=task.language, source=task.source, inputs=task.inputs)
        becomes = (await required(self._services, STATIC_CHECKS).check(task, run.session, within_s=CHECK_S)).becomes
        return becomes if isinstance(becomes, CodeRun) else None

    async def _call(
        self, task: ToolCall, run: Run, call_next: CallNext, rehearsal: Rehearsal, level: Level
    ) -> Outcome:  # fmt: skip
        entry = self._catalog.get(task.tool)
        if entry is not None and entry.own and only_reads(entry):
            return await call_next(task, run)
        related = [] if entry is None else rehearsal.related(task, entry)
        if entry is not None and reads(entry):
            read = await self._reads.read(without_level(task), entry, run, call_next, related)
            return read if isinstance(read, Outcome) else ended(task, read, level)
        answer = await self._answers.to(task, entry, run.session.principal, changed=bool(related))
        more: dict[str, Any] = {}
        if entry is not None and answer.kind == "result":
            effect = effect_of(task, entry, run.path, answer.content)
            rehearsal.effects.append(effect)
            more["effect"] = {"what": effect.what, "of": dict(effect.identity)}
        return ended(task, answer, level, more)


def ended(task: ToolCall, answer: Answer, level: Level, more: Mapping[str, Any] | None = None) -> Outcome:
    """How a simulated call ends, labelled."""
    told = dict(answer.about)
    differs = {WOULD_DIFFER: steps} if (steps := told.pop(WOULD_DIFFER, None)) else {}
    about = label(answer.source, task, task.tool, **told, **(more or {}))
    if answer.kind == "result":
        if answer.source == "placeholder":
            missed = MISSED.format(task.tool)
            if level == "strict":
                return _finished_outcome(
                    task, Failure("dry_run.miss", missed + REMEDY, details={META: {**about, "source": "none"}})
                )
            if level == "warn":
                about["warnings"] = [missed]
        return _finished_outcome(task, None, labelled(answer.content, {META: about, **differs}))
    recorded = f"As recorded at {about.get('recorded_at', '?')}: "
    if answer.kind == "refusal":
        error = in_error(answer.content, about)
        failure = Failure("tool.refused", recorded + str(error["message"]), details={"rpc": error, META: about})
        return _finished_outcome(task, failure)
    texts = [b.get("text") for b in answer.content.get("content") or () if isinstance(b, Mapping)]
    said = "\n".join(text for text in texts if isinstance(text, str)) or f"{task.tool} failed without a message."
    return _finished_outcome(
        task, Failure("tool.failed", recorded + said, details={META: about}), labelled(answer.content, {META: about})
    )


def _unknown(task: Task, level: Level) -> Outcome:
    """Code, a capability, or a kind of task that is not known here: it is not run."""
    name = _named(task)
    note = (NOT_RUN_BY_PLUGIN if isinstance(task, PluginTask) else NOT_RUN).format(name)
    about = label("placeholder", task, name, notes=[note])
    if level == "strict":
        return _finished_outcome(task, Failure("dry_run.miss", note, details={META: {**about, "source": "none"}}))
    return _finished_outcome(task, None, f"Simulated execution of {name}", {META: about})


def _returned(task: Task, output: Output) -> Outcome:
    """What the same code returned before, as it was: what is said of it stands beside it."""
    recorded = {"recorded_at": output.recorded_at, "duration_ms": output.duration_ms}
    return _finished_outcome(
        task, None, output.value, {META: label("recorded", task, _named(task), **recorded, notes=[CALLS])}
    )


def _named(task: Task) -> str:
    """What it is called."""
    if isinstance(task, CodeRun):
        return f"{task.language} code"
    if isinstance(task, PluginTask):
        return f"a {task.type} task"
    return f"capability {task.capability_id}" if isinstance(task, CapabilityRun) else type(task).__name__


def _finished_outcome(
    task: Task, failure: Failure | None, output: Any = None, meta: Mapping[str, Any] | None = None
) -> Outcome:
    return Outcome(
        task_id=task.id,
        status=Status.SIMULATED if failure is None else Status.ERROR,
        started_at=datetime.now(UTC),
        duration_ms=0,
        output=output,
        failure=failure,
        meta=meta,
    )


def _level(task: Task, run: Run, settings: Settings) -> Level | None:
    """As the call says, or else the request that it is part of; None when that names one that there is not."""
    asked = run.meta.get(META_LEVEL) if (own := asked_level(task)) is None else own
    if asked is None:
        return settings.level
    return next((level for level in LEVELS if level == asked), None)
