r"""References to results of earlier steps: ``{{task.path}}`` in arguments; ``\{{`` is plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pml_kit.references import Path, Reference, parse

_FOREIGN = re.compile(
    r"\$\{\s*(?P<braced>[A-Za-z0-9_-]+)(?P<inside>(?:\.[\w-]+|\[\d+\])*)\s*\}"
    r"|\$(?P<bare>[A-Za-z_][\w-]*)(?P<behind>(?:\.[A-Za-z_][\w-]*|\[\d+\])+)"
)
RESULT = re.compile(r"\.(?:result|output)(?![\w-])")
"""What other languages of plans have between a task and its result."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A string that holds references."""

    path: Path
    """Where it stands."""
    references: tuple[Reference, ...]
    whole: bool
    """Whether it is one reference and nothing else, so that the value keeps its type."""


@dataclass(frozen=True, slots=True)
class ForeignReference:
    """Something such as ``${task.result}``, which is a reference elsewhere, and plain text here."""

    at: Path
    text: str
    task: str
    right: str
    """How it is written here."""
    meant: bool
    """Whether it hardly can be anything else."""


@dataclass(frozen=True, slots=True)
class ValueScan:
    """A value with what was found in it."""

    value: Any
    """With escapes undone, and references as they are."""
    slots: tuple[Slot, ...]
    unreadable: tuple[tuple[Path, str], ...]
    """Strings with ``{{`` that start no reference."""
    foreign: tuple[ForeignReference, ...] = ()
    """Whatever the names in them are."""


NOTHING = ValueScan(None, (), ())


def scan(value: Any) -> ValueScan:
    """Find the references in ``value``, at any depth."""
    slots: list[Slot] = []
    unreadable: list[tuple[Path, str]] = []
    foreign: list[ForeignReference] = []

    def walked(at: Any, path: Path) -> Any:
        if isinstance(at, str):
            foreign.extend(_foreign(at, path) if "$" in at else ())
            return text_of(at, path) if "{{" in at else at
        if isinstance(at, Mapping):
            return {str(name): walked(member, (*path, str(name))) for name, member in at.items()}
        if isinstance(at, (list, tuple)):
            return [walked(item, (*path, i)) for i, item in enumerate(at)]
        return at

    def text_of(text: str, path: Path) -> str:
        try:
            parts = parse(text)
        except ValueError as exc:
            unreadable.append((path, str(exc)))
            return text
        references = tuple(part for part in parts if isinstance(part, Reference))
        if references:
            slots.append(Slot(path, references, whole=len(parts) == 1))
        return "".join(part.text if isinstance(part, Reference) else part for part in parts)

    return ValueScan(walked(value, ()), tuple(slots), tuple(unreadable), tuple(foreign))


def _foreign(text: str, at: Path) -> Iterator[ForeignReference]:
    for found in _FOREIGN.finditer(text):
        braced = found["braced"] is not None
        task, path = (found["braced"], found["inside"]) if braced else (found["bare"], found["behind"])
        result = RESULT.match(path)
        right = f"{{{{{task}{path[result.end() :] if result else path}}}}}"
        yield ForeignReference(
            at, found[0], task, right, meant=result is not None or (braced and found[0] == text.strip())
        )
