"""Reads of a rehearsal: what its own steps would have changed is seen by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, Outcome, Status, ToolCall, replace
from pml_kit.mcp.effects import only_reads

from .answers import Answer, Answers, result_of
from .effects import Effect, Match, ReadOverlay, overlay_read, reads_one
from .labels import META, WOULD_DIFFER, label, labelled
from .result_shapes import Form, value_of

if TYPE_CHECKING:
    from pml_hookspecs import CallNext, CatalogEntry, Run

MADE_UP = "its arguments come from simulated results, so the server was not asked"
SERVERS = frozenset({"tool.failed", "tool.refused"})
"""Codes of failures that are a server's answer."""


class Reads:
    """Answers reads: from the server or from what is known, but as it would be after what the rehearsal changed."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def read(
        self,
        task: ToolCall,
        entry: CatalogEntry,
        run: Run,
        call_next: CallNext,
        related: Sequence[tuple[Match, Effect]],
    ) -> Outcome | Answer:
        """How the read ends, or what it is answered with where the server was not asked or told of before.

        Args:
            task: The call.
            entry: Its tool, which reads.
            run: Its execution; servers are asked where that reads for real.
            call_next: Asks the server.
            related: What the rehearsal would have changed before, as far as the read may be about it.
        """
        certain = [(kind, effect) for kind, effect in related if kind != "maybe"]
        maybe = [effect for kind, effect in related if kind == "maybe"]
        if certain and certain[-1][1].what == "delete" and reads_one(entry):
            return _deleted(task, certain[-1][1])
        since = _since_deleted(certain)
        base = None
        made = since != certain or any(kind == "made" for kind, _ in certain)
        if run.reads_for_real and only_reads(entry) and not (made or _made_up(task)):
            base = await call_next(task, run)
            if not related or not _by_server(base):
                return base
            if not certain and base.status is Status.OK:
                return _flagged(base, maybe)
        answer = _real(base)
        if answer is None:
            answer = await self._answers.to(task, entry, run.session.principal, changed=bool(related))
        return self._changed(task, answer, base, since, maybe)

    def _changed(
        self,
        task: ToolCall,
        answer: Answer,
        base: Outcome | None,
        certain: Sequence[tuple[Match, Effect]],
        maybe: Sequence[Effect],
    ) -> Outcome | Answer:
        """The answer with what the steps would have changed in it."""
        effects = [effect for _, effect in certain]
        told: dict[str, Any] = {"journal": [effect.to_report() for effect in effects]}
        made = _overlaid(answer, certain)
        differs = maybe if made is not None and made.whole else [*effects, *maybe]
        if differs:
            told[WOULD_DIFFER] = [effect.to_report() for effect in differs]
        if made is None:
            if base is not None and base.status is Status.OK:
                return _flagged(base, differs)
            notes = [*answer.about.get("notes", ()), *([MADE_UP] if _made_up(task) else [])]
            return replace(answer, about={**answer.about, **told, "notes": notes})
        values = {**answer.about.get("values", {}), **dict.fromkeys(made.pointers, "journal")}
        base_of = "real" if answer.source == "none" else answer.source
        content = result_of(task, made.value, made.form, "journal")
        return Answer("journal", "result", content, {"base": base_of, "values": values, **told})


def _by_server(base: Outcome) -> bool:
    """Whether it is the server that answered: what went wrong on the way is no answer."""
    return base.status is Status.OK or (base.failure is not None and base.failure.code in SERVERS)


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


@dataclass(frozen=True, slots=True)
class _CreationOverlay(ReadOverlay):
    form: Form


def _overlaid(answer: Answer, certain: Sequence[tuple[Match, Effect]]) -> _CreationOverlay | None:
    """The value after all of them, in its form; None where what it would be cannot be told."""
    seen = value_of(answer.content) if answer.kind == "result" else None
    if seen is None or not certain:
        return None
    value: Any = seen.value
    pointers: list[str] = []
    whole = True
    for kind, effect in certain:
        news: Mapping[str, Any] = {}
        if kind == "made" and isinstance(value, Mapping) and isinstance(effect.value, Mapping):
            news = {name: member for name, member in effect.value.items() if name in value}
            value, pointers = {**value, **news}, [*pointers, *(f"/{name}" for name in news)]
        found = overlay_read(value, effect)
        if found is None and not news:
            return None
        if found is not None:
            value, pointers, whole = found.value, [*pointers, *found.pointers], whole and found.whole
    return _CreationOverlay(value, list(dict.fromkeys(pointers)), whole, seen.form)


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
    return replace(base, output=labelled(base.output, {WOULD_DIFFER: [effect.to_report() for effect in effects]}))


def _deleted(task: ToolCall, effect: Effect) -> Outcome:
    about = label("journal", task, task.tool, journal=[effect.to_report()])
    message = f"In this rehearsal {effect.task_id} ({effect.tool}) would have deleted it: reading it would fail."
    failure = Failure("dry_run.deleted", message, details={META: about})
    now = datetime.now(UTC)
    return Outcome(task_id=task.id, status=Status.ERROR, started_at=now, duration_ms=0, failure=failure)
