"""Reads of a rehearsal that reads for real: what its own steps would have changed is seen by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, Outcome, Status, ToolCall

from .answers import Answer, Answers, result_of
from .effects import Effect, Match, match, overlaid, reads_one
from .inferred import seen_in
from .labels import META, label, labelled, simulated

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, CatalogEntry, Run

    from .rehearsal import Rehearsal

WOULD_DIFFER = "pml/would_differ"
"""Member of a real result's ``_meta``: the simulated steps after which it might be another."""
MADE_UP = "its arguments come from simulated results, so the server was not asked"


class Reads:
    """Answers reads: from the server, unless the rehearsal itself would have changed what they read."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def read(
        self, task: ToolCall, entry: CatalogEntry, run: Run, call_next: CallNext, rehearsal: Rehearsal
    ) -> Outcome:
        """How the read ends; ``SIMULATED`` where the server was not asked, or its answer changed."""
        related = [(kind, effect) for effect in rehearsal.effects if (kind := match(effect, task, entry)) != "none"]
        certain = [(kind, effect) for kind, effect in related if kind != "maybe"]
        maybe = [effect for kind, effect in related if kind == "maybe"]
        if certain and certain[-1][1].what == "delete" and reads_one(entry):
            return _deleted(task, certain[-1][1])
        since = _since_deleted(certain)
        base = None
        if not _made_up(task) and since == certain and not any(kind == "made" for kind, _ in certain):
            base = await call_next(task, run)
            if not certain:
                return _flagged(base, maybe)
        return await self._changed(task, entry, run, rehearsal, base, since, maybe)

    async def _changed(
        self,
        task: ToolCall,
        entry: CatalogEntry,
        run: Run,
        rehearsal: Rehearsal,
        base: Outcome | None,
        certain: Sequence[tuple[Match, Effect]],
        maybe: Sequence[Effect],
    ) -> Outcome:
        """The base, real or made up, with what the steps would have changed in it."""
        effects = [effect for _, effect in certain]
        answer = _real(base)
        if answer is None:
            answer = await self._answers.to(task, entry, run.session.principal, rehearsal)
        told: dict[str, Any] = {"journal": [effect.told() for effect in effects]}
        if maybe:
            told[WOULD_DIFFER] = [effect.told() for effect in maybe]
        changed = _overlaid(answer, certain)
        if changed is None and base is not None and base.status is Status.OK:
            return _flagged(base, [*effects, *maybe])
        if changed is None:
            notes = [*answer.about.get("notes", ()), *([MADE_UP] if _made_up(task) else [])]
            if effects:
                told[WOULD_DIFFER] = [effect.told() for effect in (*effects, *maybe)]
            about = label(answer.source, task, task.tool, **{**answer.about, **told, "notes": notes})
            return _simulated(task, answer.content, about)
        value, pointers, form = changed
        values = {**answer.about.get("values", {}), **dict.fromkeys(pointers, "journal")}
        base_of = "real" if base is not None and base.status is Status.OK else answer.source
        about = label("journal", task, task.tool, base=base_of, values=values, **told)
        return _simulated(task, result_of(task, value, form, "journal"), about)


def _since_deleted(certain: Sequence[tuple[Match, Effect]]) -> Sequence[tuple[Match, Effect]]:
    """What came after the thing was deleted and made anew; all of it where it never was."""
    for at in range(len(certain) - 2, -1, -1):
        if certain[at][1].what == "delete":
            return certain[at + 1 :]
    return certain


def _real(base: Outcome | None) -> Answer | None:
    """The real answer as what to start from; None when there is none, or it is an error."""
    if base is None or base.status is not Status.OK or not isinstance(base.output, Mapping):
        return None
    return Answer("none", "result", base.output)


def _overlaid(answer: Answer, certain: Sequence[tuple[Match, Effect]]) -> tuple[Any, list[str], Any] | None:
    """Value, pointers to what changed in it, and its form; None where what it would be cannot be told."""
    seen = seen_in(answer.content) if answer.kind == "result" else None
    if seen is None or not certain:
        return None
    value: Any = seen.value
    pointers: list[str] = []
    for kind, effect in certain:
        if kind == "made" and isinstance(value, Mapping) and isinstance(effect.value, Mapping):
            news = {name: member for name, member in effect.value.items() if name in value}
            value, pointers = {**value, **news}, [*pointers, *(f"/{name}" for name in news)]
        found = overlaid(value, effect)
        if found is None and not (kind == "made" and pointers):
            return None
        if found is not None:
            value, pointers = found[0], [*pointers, *found[1]]
    return value, list(dict.fromkeys(pointers)), seen.form


def _made_up(task: ToolCall) -> bool:
    """Whether a rehearsed workflow took arguments from simulated results."""
    about: Any = task.extra
    for key in ("_meta", META, "arguments"):
        about = about.get(key) if isinstance(about, Mapping) else None
    return bool(about)


def _flagged(base: Outcome, effects: Sequence[Effect]) -> Outcome:
    """A real result that says after which simulated steps it might be another."""
    if not effects or not isinstance(base.output, Mapping):
        return base
    return replace(base, output=labelled(base.output, {WOULD_DIFFER: [effect.told() for effect in effects]}))


def _deleted(task: ToolCall, effect: Effect) -> Outcome:
    about = label("journal", task, task.tool, journal=[effect.told()])
    message = f"In this rehearsal {effect.task_id} ({effect.tool}) would have deleted it: reading it would fail."
    failure = Failure("dry_run.deleted", message, details={META: about})
    now = datetime.now(UTC)
    return Outcome(task_id=task.id, status=Status.ERROR, started_at=now, duration_ms=0, failure=failure)


def _simulated(task: ToolCall, content: Mapping[str, Any], about: Mapping[str, Any]) -> Outcome:
    now = datetime.now(UTC)
    output = simulated(content, about)
    return Outcome(task_id=task.id, status=Status.SIMULATED, started_at=now, duration_ms=0, output=output)
