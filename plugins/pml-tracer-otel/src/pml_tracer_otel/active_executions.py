"""What is remembered of an execution, and of a call to a server, while it runs and until it is exported."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pml_hookspecs import GATEWAY_SERVER, Status, split_tool_id

from .context import new_span_id
from .names import ERROR, OTHER, TOOL, TOOL_ERROR

if TYPE_CHECKING:
    from pml_hookspecs import Ended, Outcome, Session, Span, ToolCall

    from .context import Trace

OWN = f"{GATEWAY_SERVER}:"
TOOL_FAILED, TOOL_REFUSED = "tool.failed", "tool.refused"
NO_ERRORS = frozenset({Status.OK, Status.SIMULATED, Status.SKIPPED, Status.INPUT_REQUIRED})
"""Statuses that are no error."""
KINDS = {"tools/call": "tool"}
"""Kinds of executions by the name of their spans, where it is another."""


class ActiveExecution:
    """An execution that is under way or waits to be exported."""

    __slots__ = ("arguments", "dry_run", "ended", "known", "rpc_code", "session", "span", "tool", "trace")

    def __init__(self, span: Span, trace: Trace) -> None:
        self.span, self.trace = span, trace
        tool: Any = span.attributes.get(TOOL)
        self.tool: str = tool if isinstance(tool, str) else ""
        """Id of the tool called; ``""`` when none is."""
        self.ended: Ended
        self.session: Session | None = None
        """None when it ended before any wrapper saw it."""
        self.dry_run = False
        self.arguments = ""
        self.rpc_code: str = ""
        """Code of the JSON-RPC error that the server answered with last."""
        self.known = True
        """Whether there is such a tool: if not, its name is whatever a client made up."""

    @property
    def kind(self) -> str:
        """``tool``, ``workflow``, ``code``, ``capability``."""
        return KINDS.get(self.span.name, self.span.name)

    @property
    def server(self) -> str:
        """The tool's server; ``""`` when there is none."""
        return split_tool_id(self.tool)[0]

    @property
    def error(self) -> str:
        """What kind of error it ended with; ``""`` when it did not."""
        if self.ended.status in NO_ERRORS:
            return ""
        code: Any = self.ended.attributes.get(ERROR)
        if code == TOOL_FAILED:
            return TOOL_ERROR
        if code == TOOL_REFUSED and self.rpc_code:
            return self.rpc_code
        return str(code or OTHER)


class ServerCall:
    """One call to a server: what the gateway asks as a client."""

    __slots__ = ("end_ns", "error", "known", "parent", "rpc_code", "server", "span_id", "start_ns", "tool")

    def __init__(self, task: ToolCall, parent: ActiveExecution, *, known: bool = True) -> None:
        """It begins now; ``known`` says whether its server lists the tool, whose name is the client's if not."""
        self.parent, self.span_id, self.known = parent, new_span_id(), known
        self.server, self.tool = split_tool_id(task.tool)
        self.start_ns = self.end_ns = time.time_ns()
        self.error = self.rpc_code = ""

    def end(self, outcome: Outcome | None) -> None:
        """It ends now; with None it was cancelled, or its executor failed."""
        self.end_ns = max(time.time_ns(), self.start_ns)
        if outcome is None:
            self.error = "cancelled"
            return
        failure = outcome.failure
        if failure is None or outcome.status in NO_ERRORS:
            return
        rpc: Any = failure.details.get("rpc") if failure.code == TOOL_REFUSED else None
        if rpc is not None:
            self.error = self.rpc_code = self.parent.rpc_code = str(rpc["code"])
        else:
            self.error = TOOL_ERROR if failure.code == TOOL_FAILED else failure.code
