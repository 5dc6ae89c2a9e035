"""What each phase of the chain is given to judge."""

from __future__ import annotations

from pml_hookspecs import Phase, ToolCall, encode, hookimpl


class ArgumentLooks:
    """Hooks with a wrapper in every phase, each of which keeps the arguments of calls of one tool."""

    def __init__(self, tool):
        self.tool = tool
        self.seen = {}

    @hookimpl
    def pml_wrap_executor(self, services):
        return [self.wrapper(phase) for phase in Phase]

    def wrapper(self, phase):
        async def look(task, run, call_next):
            if isinstance(task, ToolCall) and task.tool == self.tool:
                self.seen.setdefault(phase, []).append(encode(task.arguments))
            return await call_next(task, run)

        look.phase = phase
        return look
