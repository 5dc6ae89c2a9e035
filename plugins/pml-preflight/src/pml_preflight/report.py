"""The report of a pre-flight: complete as JSON, readable as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pml_hookspecs import replace

from .effects import WORDS, Effects
from .findings import Finding
from .message_text import listed
from .rehearsal_findings import failed

if TYPE_CHECKING:
    from pml_hookspecs import Outcome, Workflow

TYPES = ("argument.", "reference.", "code.type")
"""Beginnings of the codes of findings that are type errors."""
SYNTAX = "code.syntax"
UNKNOWN_TOOL = "tool.unknown"
MOST_LINES = 60
"""Steps or findings that the text tells; the rest is counted."""


@dataclass(slots=True, kw_only=True)
class StepReport:
    """What is known of one step."""

    path: str
    type: str
    """``tool``, ``code``, ``capability`` or ``workflow``."""
    target: str = ""
    """Tool id, language or capability id."""
    depends_on: Sequence[str] = ()
    effects: Effects
    reversible: bool
    """Whether the plan says how to undo it, or there is nothing to undo."""
    approval: str = ""
    """Why a human has to look first; ``""`` when nobody said so."""
    server: str = ""
    server_state: str = ""
    answer: str = ""
    """Where the answer of a rehearsal would come from: ``recorded``, ``example``, ``schema``, ``inferred``,
    ``placeholder``; ``""`` for what is not answered so."""
    duration_ms: int | None = None
    cost_usd: float | None = None
    samples: int = 0
    times: int = 1
    calls: Sequence[str] = ()
    """Tools that code names."""
    checked: str = ""
    """How far code was looked at: ``nothing``, ``parsed`` or ``types``."""
    unchecked: str = ""
    """Why its executor looked no further; ``""`` when it looked at all there is, or there is none."""
    known: bool = False

    @property
    def only_reads(self) -> bool:
        """Whether there is nothing to be said of it for reading but that."""
        said = self.known or self.approval or self.unchecked or self.times != 1
        return self.type == "tool" and self.effects.what == "reads" and not said

    def to_report(self) -> dict[str, Any]:
        """As JSON; what nothing is known of, and what is empty or not so, is left out."""
        told: dict[str, Any] = {
            "id": self.path,
            "type": self.type,
            "target": self.target,
            "effect": self.effects.what,
            "reversible": self.reversible,
        }
        more = {
            "depends_on": list(self.depends_on),
            "dangerous": self.effects.dangerous,
            "idempotent": self.effects.idempotent,
            "open_world": self.effects.open_world,
            "needs_approval": bool(self.approval),
            "approval": self.approval,
            "estimated_duration_ms": self.duration_ms,
            "estimated_cost_usd": self.cost_usd,
            "samples": self.samples or None,
            "answer": self.answer,
            "calls": list(self.calls),
            "code_checked": self.checked,
            "code_unchecked": self.unchecked,
            "items": self.times if self.times != 1 else None,
            "already_done": self.known,
        }
        return told | {name: value for name, value in more.items() if value or type(value) is int}


@dataclass(slots=True, kw_only=True)
class Report:
    """The report on a whole plan."""

    steps: list[StepReport]
    findings: list[Finding]
    critical_path: Sequence[str] = ()
    duration_ms: int | None = None
    cost_usd: float | None = None
    unknown: Sequence[str] = field(default_factory=list)
    """Steps whose duration nobody knows."""
    took_ms: float = 0.0

    @property
    def errors(self) -> list[Finding]:
        """What fails as it stands."""
        return [one for one in self.findings if one.level == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """What may fail."""
        return [one for one in self.findings if one.level == "warning"]

    @property
    def notes(self) -> list[Finding]:
        """What rests on what nobody promises."""
        return [one for one in self.findings if one.level == "note"]

    def after(self, task: Workflow, outcome: Outcome) -> Report:
        """The report with what the rehearsal of ``task`` found out besides."""
        found = failed(task, outcome, {one.task for one in self.errors})
        return replace(self, findings=[*self.findings, *found])

    def to_report(self) -> dict[str, Any]:
        """As JSON; what is for reading comes first."""
        answers = {step.path: step.answer for step in self.steps if step.answer}
        return {
            "text": self.text(),
            "ok": not self.errors,
            "syntax_valid": not any(one.code == SYNTAX for one in self.findings),
            "errors": [one.to_report() for one in self.errors],
            "type_errors": [one.to_report() for one in self.errors if one.code.startswith(TYPES)],
            "missing_tools": [one.to_report() for one in self.errors if one.code == UNKNOWN_TOOL],
            "warnings": [one.to_report() for one in self.warnings],
            **({"notes": [one.to_report() for one in self.notes]} if self.notes else {}),
            "cache_hits": [path for path, answer in answers.items() if answer == "recorded"],
            "cache_misses": [path for path, answer in answers.items() if answer != "recorded"],
            "tools_called": list(dict.fromkeys(self._tools())),
            "side_effects": [step.path for step in self._running() if step.effects.any],
            "needs_approval": [step.path for step in self._running() if step.approval],
            "reversible": all(step.reversible for step in self._running()),
            "estimated_duration_ms": self.duration_ms,
            "estimated_cost_usd": self.cost_usd,
            "critical_path": list(self.critical_path),
            "without_estimate": list(self.unknown),
            "servers": {step.server: step.server_state for step in self.steps if step.server},
            "steps": [step.to_report() for step in self.steps],
            "took_ms": round(self.took_ms, 1),
        }

    def _running(self) -> list[StepReport]:
        return [step for step in self.steps if not step.known and step.type != "workflow"]

    def _tools(self) -> Iterator[str]:
        for step in self._running():
            if step.type == "tool":
                yield step.target
            yield from step.calls

    def text(self) -> str:
        """For humans and models."""
        lines = [self._headline()]
        lines += [f"  ✗ {one.line()} [{one.code}]" for one in self.errors[:MOST_LINES]]
        lines += [f"  ! {one.line()} [{one.code}]" for one in self.warnings[:MOST_LINES]]
        if (left := max(len(self.errors) - MOST_LINES, 0) + max(len(self.warnings) - MOST_LINES, 0)) > 0:
            lines.append(f"  … and {left} more")
        lines += [f"  ? {one.line()}" for one in self.notes[:MOST_LINES]]
        only_read = [step for step in self.steps if step.only_reads]
        others = [step for step in self.steps if not step.only_reads]
        lines += [_line(step) for step in others[:MOST_LINES]]
        if len(others) > MOST_LINES:
            lines.append(f"  … and {len(others) - MOST_LINES} more")
        if only_read:
            lines.append(f"  only read: {listed(step.path for step in only_read)}")
        lines.append(self._estimate())
        return "\n".join(lines)

    def _headline(self) -> str:
        counted = [_count(len(self.errors), "mistake"), _count(len(self.warnings), "warning")]
        found = " and ".join(text for text in counted if text) or "nothing wrong"
        irreversible = [step.path for step in self._running() if not step.reversible]
        more = f" Cannot be undone: {listed(irreversible)}." if irreversible else ""
        waiting = [step.path for step in self._running() if step.approval]
        more += f" A human has to look at: {listed(waiting)}." if waiting else ""
        return f"Pre-flight of {_count(len(self.steps), 'step') or 'no steps'}: {found}.{more}"

    def _estimate(self) -> str:
        cost = "unknown" if self.cost_usd is None else f"about {self.cost_usd:g} USD"
        if self.duration_ms is None:
            return f"Duration: unknown. Cost: {cost}."
        way = f" along {listed(self.critical_path)}" if self.critical_path else ""
        without = f"; nothing is known of {listed(self.unknown)}" if self.unknown else ""
        return f"Duration: about {_time(self.duration_ms)}{way}{without}. Cost: {cost}."


def _line(step: StepReport) -> str:
    about = [WORDS[step.effects.what]] if step.type != "workflow" else []
    if step.effects.any and step.type != "workflow":
        about += ["the plan says how to undo it"] if step.reversible else []
    if step.known:
        about = ["already done"]
    if step.unchecked:
        about.append(step.unchecked[:1].lower() + step.unchecked[1:].rstrip("."))
    if step.approval:
        about.append(f"needs approval ({step.approval})")
    if step.answer:
        about.append(f"rehearsed by {step.answer}")
    if step.duration_ms is not None and step.samples:
        about.append(_time(step.duration_ms))
    after = f" after {listed(step.depends_on)}" if step.depends_on else ""
    times = f", {step.times} times" if step.times != 1 else ""
    target = step.target or step.type
    return f"  {step.path}: {target}{times}{after}" + (f" — {', '.join(about)}" if about else "")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}" if number else ""


def _time(duration_ms: int) -> str:
    return f"{duration_ms} ms" if duration_ms < 1000 else f"{duration_ms / 1000:.1f} s"  # noqa: PLR2004 - a second
