"""Who knows where the values come from that a task is about to run with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from pml_hookspecs import Key

if TYPE_CHECKING:
    from pml_hookspecs import ExecutionId


class Flows(Protocol):
    """Knows which values of untrusted servers would decide what a task does, for whoever has a human look at that."""

    def of(self, execution: ExecutionId) -> Sequence[str]:
        """A line for each such value: what it decides, the value and where it comes from, for people to read.

        Args:
            execution: One that is under way.

        Returns:
            The same lines, in the same order, whenever the same values flow in the same plan. Empty where none does.
        """
        ...


FLOWS: Key[Flows] = Key("flows", Flows)
