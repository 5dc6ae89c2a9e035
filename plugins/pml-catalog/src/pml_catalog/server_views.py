"""Which servers a session may know of, and how much of each: one rule for the status resource and for every refusal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pml_hookspecs import TransportError, replace, split_tool_id

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pml_hookspecs import ServerStatus, Session, ToolId

SYSTEM = "system"
"""The scope whose holders see everything."""
BUSY = "it is busy; try again later"
"""For those who may not know how much others ask of a server."""
LOCAL = "local"
"""Principal of everybody where there are no keys."""
ASK_OPERATOR = "the gateway's log says why; ask its operator"
"""What stands for a reason, which may quote a server's stderr, its arguments and paths of the machine."""


class BusyError(TransportError):
    """A server has no room for another request now."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


def is_operator(session: Session) -> bool:
    """Whether a session is of whoever runs the gateway: on stdio or loopback without a key, or of a system's key."""
    return SYSTEM in session.scopes or (not session.access_key and session.principal == LOCAL)


def known_servers(
    servers: Sequence[ServerStatus], visible: Collection[ToolId], session: Session
) -> Sequence[ServerStatus]:
    """Those of ``servers`` that ``session``, which sees the tools ``visible``, may know of; all for an operator.

    Of others it is those of which it may have a tool: how many of them, and no reasons and restarts.
    """
    if is_operator(session):
        return servers
    tools = Counter(split_tool_id(id)[0] for id in visible)
    return [
        replace(status, reason="", restarts=0, tools=tools[status.name]) for status in servers if tools[status.name]
    ]


def reason_for(session: Session, reason: str | TransportError) -> str:
    """Why a server cannot be reached, as far as ``session`` may be told."""
    if is_operator(session):
        return str(reason)
    return BUSY if isinstance(reason, BusyError) else ASK_OPERATOR
