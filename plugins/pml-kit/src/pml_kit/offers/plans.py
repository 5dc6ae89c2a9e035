"""What makes plans of intents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pml_hookspecs import Key

if TYPE_CHECKING:
    from pml_hookspecs import Run, Workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A plan that somebody made of an intent."""

    workflow: Workflow
    confidence: float
    """In ``[0, 1]``."""
    why: str
    """One or two sentences."""


class Suggester(Protocol):
    """Makes plans of intents."""

    async def suggest(self, intent: str, run: Run, *, limit: int) -> Sequence[Suggestion]:
        """At most ``limit`` plans with tools that the session of ``run`` may have, best first; none without an idea."""
        ...


SUGGESTER: Key[Suggester] = Key("suggester", Suggester, several="asked")
