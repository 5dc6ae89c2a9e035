"""The tool of the gateway's own by which a client calls tools that its list may not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pml_hookspecs import Key

if TYPE_CHECKING:
    from pml_hookspecs import Session
    from pml_kit.mcp.effects import Effects


class IndirectCalls(Protocol):
    """Knows a tool that takes ``name`` and ``arguments`` of another one and calls that."""

    def __call__(self, session: Session, effects: Effects, /) -> str:
        """The name by which the client of ``session`` is shown such a tool, for one that has these effects at most.

        Answers at once, the same for a client each time. ``""`` where the client is shown none.
        """
        ...


INDIRECT_CALLS: Key[IndirectCalls] = Key("indirect_calls", IndirectCalls)
"""Asked by whoever tells a model how to call a tool: previews of large results, refusals of the gateway."""
