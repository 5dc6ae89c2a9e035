r"""References to results in a text: ``{{task_id.path}}``, and ``{{result:ID.path}}`` to one that is stored.

The path walks the result value with ``.name``, ``[0]`` (first item) and ``["any name"]``; ``{{task_id}}`` is the whole
value. ``\{{`` is plain ``{{``; two backslashes before ``{{`` are one backslash and a reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from pml_hookspecs import CapabilityRun, CodeRun, PluginTask, Step, Task, ToolCall, Workflow, replace
from pml_hookspecs.tasks import ONCE

STEP = r"""\.[^\s.\[\]{}"]+|\[\d{1,9}\]|\["[^"\\]+"\]"""
"""One step of a path, as a regular expression."""
_OPENING = re.compile(r"(\\*)\{\{")
_PLAIN_NAME = re.compile(r"""[^\s.\[\]{}"]+""")
_OTHERS = re.compile(rf"""\$\{{\s*([A-Za-z0-9_-]+)((?:{STEP})*)\s*\}}|\$([A-Za-z_][A-Za-z0-9_-]*)((?:{STEP})+)""")
"""How other languages write references, as all of a text."""
_OTHERS_WITHIN = re.compile(
    r"\$\{\s*([A-Za-z0-9_-]+)((?:\.[\w-]+|\[\d+\])*)\s*\}|\$([A-Za-z_][\w-]*)((?:\.[A-Za-z_][\w-]*|\[\d+\])+)"
)
"""As before, within a text, where full stops may be its own."""
_RESULT = re.compile(r"\.(?:result|output)(?![\w-])")
"""What other languages of plans have between a task and its result."""
_REFERENCE = re.compile(rf"""\{{\{{\s*([^\s.\[\]{{}}"]+)((?:{STEP})*)\s*\}}\}}""")
_STEPS = re.compile(STEP)
STORED = "result:"
"""Begins the name of what is no task's result, but a stored one, before its id. No task has such a name."""
_STORED = re.compile(rf"\{{\{{\s*{STORED}")
_NOT_STORED = re.compile(rf"(\\*)\{{\{{(?!\s*{STORED})")
LONGEST_KEPT = 200
"""Characters of a text whose parts are kept for the next who asks."""
SHOWN = 40
"""Characters of what cannot be read that a message shows."""

Path: TypeAlias = tuple[str | int, ...]
"""Names and positions."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One ``{{…}}``."""

    text: str
    """The reference as it was written."""
    task: str
    path: Path
    """Below the result value; empty for the whole of it."""

    @property
    def stored(self) -> str:
        """Id of the stored result that it is to; ``""`` where it is to a task's."""
        return self.task.removeprefix(STORED) if self.task.startswith(STORED) else ""


@dataclass(frozen=True, slots=True)
class Slot:
    """A string that holds references or escapes."""

    path: Path
    """Where the string stands."""
    parts: tuple[str | Reference, ...]

    @property
    def references(self) -> list[Reference]:
        """The references in it, in order; empty when there are escapes only."""
        return [part for part in self.parts if isinstance(part, Reference)]

    @property
    def whole(self) -> Reference | None:
        """The reference that it is, and nothing else, so that the value keeps its type; None otherwise."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return only if isinstance(only, Reference) else None

    @property
    def text(self) -> str:
        """The string with escapes undone, and references as they are."""
        return "".join(part.text if isinstance(part, Reference) else part for part in self.parts)


@dataclass(frozen=True, slots=True)
class ForeignReference:
    """Something such as ``${task.result}``, which is a reference elsewhere, and plain text here."""

    path: Path
    """Where the string stands that has it."""
    text: str
    task: str
    right: str
    """How it is written here."""
    meant: bool
    """Whether it hardly can be anything else."""


@dataclass(slots=True)
class FoundReferences:
    """What in a value is a reference, or looks like one, in document order."""

    slots: list[Slot] = field(default_factory=list)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)
    """Strings with ``{{`` that start no reference, from there on."""
    foreign: list[ForeignReference] = field(default_factory=list)
    """Whatever the names in them are."""


def find(value: Any) -> FoundReferences:
    """The references in ``value``, at any depth; names of members have none."""
    found = FoundReferences()
    stack: list[tuple[Path, Any]] = [((), value)] if _may_refer(value) else []
    while stack:
        path, at = stack.pop()
        if isinstance(at, str):
            if "{{" in at:
                try:
                    found.slots.append(Slot(path, parse(at)))
                except ValueError as exc:
                    found.unreadable.append((path, str(exc)))
            if "$" in at:
                found.foreign += _foreign(at, path)
            continue
        members = at.items() if isinstance(at, Mapping) else enumerate(at)
        inner = [((*path, key), member) for key, member in members if _may_refer(member)]
        stack.extend(reversed(inner))
    return found


def _may_refer(value: Any) -> bool:
    if isinstance(value, str):
        return "{{" in value or "$" in value
    return isinstance(value, (Mapping, list, tuple))


def _foreign(text: str, path: Path) -> Iterator[ForeignReference]:
    whole = _OTHERS.fullmatch(text.strip())
    for found in [whole] if whole else _OTHERS_WITHIN.finditer(text):
        task, steps = found[1] or found[3], (found[2] if found[1] else found[4]) or ""
        result = _RESULT.match(steps)
        right = f"{{{{{task}{steps[result.end() :] if result else steps}}}}}"
        yield ForeignReference(path, found[0], task, right, meant=bool(whole or result))


def path_text(path: Path) -> str:
    """``path`` as a reference spells it: ``.items[0]["a name"]``."""
    return "".join(
        f"[{key}]" if isinstance(key, int) else f".{key}" if _PLAIN_NAME.fullmatch(key) else f'["{key}"]'
        for key in path
    )


def parse(text: str) -> tuple[str | Reference, ...]:
    """Split ``text`` into plain text, escapes undone, and references, in order; empty for an empty text.

    Raises:
        ValueError: A ``{{`` starts no reference; the message is the part of the text that it stands in.
    """
    return _parse_again(text) if len(text) <= LONGEST_KEPT else _parse(text)


def _parse(text: str) -> tuple[str | Reference, ...]:
    parts: list[str | Reference] = []
    plain, at = "", 0
    while found := _OPENING.search(text, at):
        backslashes = len(found[1])
        plain += text[at : found.start()] + "\\" * (backslashes // 2)
        if backslashes % 2:
            plain, at = plain + "{{", found.end()
            continue
        reference = _REFERENCE.match(text, found.end() - 2)
        if reference is None:
            raise ValueError(text[found.end() - 2 :][:SHOWN])
        if plain:
            parts.append(plain)
        parts.append(_made(reference))
        plain, at = "", reference.end()
    if rest := plain + text[at:]:
        parts.append(rest)
    return tuple(parts)


_parse_again = lru_cache(4096)(_parse)
"""Each reference is read when a plan is checked, and again by those who ask where its values come from."""


def references_in(text: str) -> Iterator[Reference]:
    """Whatever looks like a reference in ``text``, in order; what is before it does not count as an escape."""
    return map(_made, _REFERENCE.finditer(text))


def path_of(steps: str) -> Path:
    """The path that is spelt as ``.items[0]["a name"]``."""
    return tuple(map(_key, _STEPS.findall(steps)))


def values_of(task: Task) -> Mapping[str, Any]:
    """What of a task may hold references; empty for a workflow, whose tasks see only one another's results."""
    if isinstance(task, ToolCall):
        return task.arguments
    return task.inputs if isinstance(task, (CodeRun, CapabilityRun, PluginTask)) else {}


def with_stored(task: ToolCall | CodeRun) -> ToolCall | CodeRun | Workflow:
    """``task``, or in its place, if references to stored results stand in it, a plan of it alone that is answered it.

    All other braces in it are plain text, as they are in tasks on their own.
    """
    values = task.arguments if isinstance(task, ToolCall) else task.inputs
    if not _has_stored(values):
        return task
    escaped: Any = _escaped(values)
    inner = (
        replace(task, arguments=escaped, dry_run=None) if isinstance(task, ToolCall) else replace(task, inputs=escaped)
    )
    dry_run = task.dry_run if isinstance(task, ToolCall) else None
    select = inner.step.select
    step = Step(select=f"{task.id} | {select}" if select else task.id)
    return Workflow(id=task.id, tasks=(replace(inner, step=ONCE),), step=step, dry_run=dry_run)


def _has_stored(value: Any) -> bool:
    if isinstance(value, str):
        return "{{" in value and _STORED.search(value) is not None
    if isinstance(value, Mapping):
        return any(map(_has_stored, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_stored, value))


def _escaped(value: Any) -> Any:
    """``value`` as a plan writes it where only references to stored results are some."""
    if isinstance(value, str):
        return _NOT_STORED.sub(lambda found: f"{found[1] * 2}\\{{{{", value)
    if isinstance(value, Mapping):
        return {name: _escaped(member) for name, member in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, (list, tuple)) else value


def _made(found: re.Match[str]) -> Reference:
    return Reference(found[0], found[1], path_of(found[2]))


def _key(step: str) -> str | int:
    if step.startswith("."):
        return step[1:]
    return step[2:-2] if step.startswith('["') else int(step[1:-1])
