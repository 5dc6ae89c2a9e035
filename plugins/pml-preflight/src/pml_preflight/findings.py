"""What a pre-flight finds wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

SYNTAX = "code.syntax"
CERTAIN = ("argument.", SYNTAX, "plan.", "reference.", "tool.unknown")
"""Beginnings of codes."""
Level: TypeAlias = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong with a plan."""

    level: Level
    """``error``: fails as it stands. ``warning``: may fail, or means something else than it seems to. ``note``: rests
    on what nobody promises."""
    code: str
    """Stable, such as ``argument.type``."""
    task: str
    """Path of the task: ids joined by ``/``; ``""`` for the plan as a whole."""
    message: str
    """What, and what to do."""
    at: str = ""
    """Place in the task, such as ``arguments.options[2]``; ``""`` for all of it."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """For programs."""
    open: bool = False
    """Whether the tool's server decides: it may take what its schema does not."""

    @property
    def certain(self) -> bool:
        """Whether it fails whenever it runs, on every server, so that nothing beside it need run to find out.

        Code may catch what its calls do wrong, or never come there.
        """
        in_code = "line" in self.more and self.code != SYNTAX
        return self.level == "error" and self.code.startswith(CERTAIN) and not (in_code or self.open)

    def to_report(self) -> dict[str, Any]:
        """The finding as JSON."""
        about = {"code": self.code, "task": self.task, "at": self.at, "message": self.message}
        return {name: text for name, text in about.items() if text} | dict(self.more)

    def line(self) -> str:
        """For humans."""
        where = " ".join(part for part in (self.task, self.at) if part)
        return f"{where}: {self.message}" if where else self.message


def error(code: str, task: str, message: str, at: str = "", **more: Any) -> Finding:
    """Something that fails as it stands."""
    return Finding(level="error", code=code, task=task, message=message, at=at, more=more)


def warning(code: str, task: str, message: str, at: str = "", **more: Any) -> Finding:
    """Something that may fail."""
    return Finding(level="warning", code=code, task=task, message=message, at=at, more=more)


def note(code: str, task: str, message: str, at: str = "", **more: Any) -> Finding:
    """Something that rests on what nobody promises."""
    return Finding(level="note", code=code, task=task, message=message, at=at, more=more)
