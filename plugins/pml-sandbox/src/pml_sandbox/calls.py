"""Tool calls that code makes: each goes through the gateway's chain as a child of the code's own execution."""

from __future__ import annotations

import asyncio
import keyword
import re
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CodeRun, Failure, Outcome, RawObject, Run, Status, ToolCall, ToolId, split_tool_id
from pml_kit.mcp import result_values
from pml_kit.offers.presentation import shown_name

from .outcomes import CALL_LIMIT as LIMIT
from .outcomes import FAULT

if TYPE_CHECKING:
    from pml_hookspecs import Catalog

NOT_ALLOWED = "code.tool_not_allowed"
BAD_CALL = "code.bad_call"
UNREADABLE = "code.unreadable_result"


class CallError(Exception):
    """A tool call failed. To be raised inside the code, with :attr:`failure`'s message and code."""

    def __init__(self, tool: str, failure: Failure, status: Status = Status.ERROR) -> None:
        super().__init__(failure.message)
        self.tool, self.failure, self.status = tool, failure, status


class CallLimitError(CallError):
    """The code has made all the calls that it may; it is to be stopped."""


def value_of(output: Any) -> Any:
    """What a call gives to code: of a tool's result its value, as of references in workflows.

    Of a tool that stands for another task: what that task gave.
    """
    if type(output) is RawObject:
        output = output.value  # of its own, each look-up costs several times as much
    is_result = isinstance(output, Mapping) and isinstance(output.get("content"), (list, tuple))
    return result_values.value_of(output) if is_result else output


@lru_cache(maxsize=16384)
def identifier(name: str) -> str:
    """``name`` as TypeScript and Python can write it after a dot: ``read-file`` becomes ``read_file``."""
    made = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    return f"_{made}" if made[0].isdigit() or keyword.iskeyword(made) else made


class Calls:
    """The calls of one run of code."""

    def __init__(self, task: CodeRun, run: Run, catalog: Catalog, log: Any, *, most: int, most_at_once: int) -> None:
        """Take what the calls belong to.

        Args:
            task: The code; its ``tools`` say what it may call.
            run: Its execution, of which the calls are children.
            catalog: Finds tools.
            log: Told of faults of the gateway.
            most: Calls in all.
            most_at_once: Calls under way; more wait for their turn.
        """
        self._patterns, self._run, self._catalog, self._log, self._most = task.tools, run, catalog, log, most
        self._turns = asyncio.Semaphore(most_at_once)
        self._by_tool: Counter[str] = Counter()
        self._spellings: dict[str, ToolId | None] = {}
        self.made = 0
        """Calls so far, refused ones included."""

    async def call(self, name: str, arguments: Any) -> Any:
        """Call the tool that code calls ``name``.

        Args:
            name: ``server:tool``, any other spelling that the catalog knows, or both parts spelt as identifiers.
            arguments: One JSON object; None for none.

        Returns:
            What :func:`value_of` makes of the result.

        Raises:
            CallLimitError: That is one call too many.
            CallError: It failed, or was refused.
        """
        self.made += 1
        if self.made > self._most:
            raise CallLimitError(name, Failure(LIMIT, f"More than {self._most} tool calls."))
        call = self._call(name, {} if arguments is None else arguments)
        async with self._turns:
            outcome = await self._dispatched(call)
        return self._value(call, outcome)

    def _call(self, name: str, arguments: Any) -> ToolCall:
        tool = self._allowed(name)
        if not isinstance(arguments, Mapping):
            message = f"{name}: a tool takes one object with its arguments, such as {{path: 'a'}}."
            raise CallError(name, Failure(BAD_CALL, message))
        try:
            # Their bytes are made once, however many parts of the chain ask for them.
            raw = RawObject.of(arguments)
        except (TypeError, ValueError, RecursionError) as exc:
            raise CallError(name, Failure(BAD_CALL, f"{name}: {exc}")) from exc
        self._by_tool[tool] += 1
        # Numbered by tool: calls that run side by side keep their names when the code runs again.
        return ToolCall(id=f"{tool}#{self._by_tool[tool]}", tool=tool, arguments=raw)

    def _allowed(self, name: str) -> ToolId:
        entry = self._catalog.resolve(name, self._run.session)
        # A tool that is not known yet may be one of a server that is still starting: the chain waits for those.
        tool = (self._spelt(name) or ToolId(name)) if entry is None else entry.id
        if self._patterns is None or any(fnmatchcase(tool, pattern) for pattern in self._patterns):
            return tool
        which = ", ".join(self._patterns) or "no tools at all"
        message = f"This code may not call {name!r}: it may call {which}."
        raise CallError(name, Failure(NOT_ALLOWED, message), Status.DENIED)

    def _spelt(self, name: str) -> ToolId | None:
        """The one tool whose id looks like ``name`` when its parts are spelt as identifiers; None without exactly one.

        Walks the catalog, once for each name that it does not know.
        """
        if name in self._spellings:
            return self._spellings[name]
        server, tool = split_tool_id(name)
        visible = self._catalog.visible(self._run.session)
        found = [
            entry.id
            for entry in self._catalog
            if identifier(entry.server) == server
            and tool in (identifier(entry.name), identifier(shown_name(entry)))
            and entry.id in visible
        ]
        self._spellings[name] = found[0] if len(found) == 1 else None
        return self._spellings[name]

    async def _dispatched(self, call: ToolCall) -> Outcome:
        try:
            return await self._run.dispatch(call)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            failure = Failure("task.cancelled", f"{call.tool} was cancelled before it ended.", retryable=True)
            raise CallError(call.tool, failure, Status.CANCELLED) from None
        except Exception:
            self._log.exception("a tool call of code failed in the gateway", tool=call.tool)
            failure = Failure(FAULT, f"The gateway failed to call {call.tool}; see its log.")
            raise CallError(call.tool, failure) from None

    @staticmethod
    def _value(call: ToolCall, outcome: Outcome) -> Any:
        if not outcome.status.good:
            failure = outcome.failure or Failure("tool.failed", f"{call.tool} ended as {outcome.status}.")
            raise CallError(call.tool, failure, outcome.status)
        try:
            return value_of(outcome.output)
        except (ValueError, RecursionError) as exc:
            failure = Failure(UNREADABLE, f"The result of {call.tool} cannot be read as JSON.")
            raise CallError(call.tool, failure) from exc
