"""What is on record of tools: how real calls of the same caller were answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pml_hookspecs import Key

if TYPE_CHECKING:
    from pml_hookspecs import CatalogEntry, Session, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTool:
    """What is on record of one tool, as it is defined now."""

    calls: int = 0
    """Answers on record, those that failed included."""
    durations_ms: Sequence[int] = ()
    """How long the calls took that worked, the newest first [ms]."""
    shown: bool = False
    """Whether the answer to one of these can be shown as it was: nothing in it was a secret."""
    result: Mapping[str, Any] | None = None
    """JSON Schema that the values of those fit; None where the tool declares one, or nothing is known."""


class RecordedAnswers(Protocol):
    """Knows how real calls were answered, and answers rehearsals with it."""

    async def of_tool(self, entry: CatalogEntry, session: Session) -> RecordedTool:
        """What is on record of a tool for whoever has ``session``; of nothing on record, the default."""
        ...

    async def answers(self, task: ToolCall, entry: CatalogEntry, session: Session) -> bool:
        """Whether a rehearsal of this very call is answered with what it was really answered.

        Args:
            task: With arguments as they would be sent.
            entry: The tool that it calls.
            session: Whose call it is.
        """
        ...


RECORDED_ANSWERS: Key[RecordedAnswers] = Key("recorded_answers", RecordedAnswers)
