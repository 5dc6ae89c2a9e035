"""Tool calls that code makes: each goes through the gateway's chain as a child of the code's own execution."""

from __future__ import annotations

import asyncio
import json
import keyword
import math
import re
from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pml_hookspecs import CodeRun, Failure, Outcome, RawObject, Run, Status, ToolCall, ToolId, split_tool_id

if TYPE_CHECKING:
    from pml_hookspecs import Catalog

NOT_ALLOWED = "code.tool_not_allowed"
BAD_CALL = "code.bad_call"
UNREADABLE = "code.unreadable_result"
LIMIT = "code.call_limit"


class CallError(Exception):
    """A tool call failed. To be raised inside the code, with :attr:`failure`'s message and code."""

    def __init__(self, tool: str, failure: Failure, status: Status = Status.ERROR) -> None:
        super().__init__(failure.message)
        self.tool, self.failure, self.status = tool, failure, status


class CallLimitError(CallError):
    """The code has made all the calls that it may; it is to be stopped."""


def value_of(output: Any) -> Any:
    """What a call gives to code.

    Of a tool's result: its ``structuredContent``; without one, the JSON value that its only block spells when that is
    text; without that, its text blocks joined by line feeds; without any, the result itself. Of a tool that stands for
    another task: what that task gave. The same rule as that of references in workflows.
    """
    if type(output) is RawObject:
        output = output.value  # of its own, each look-up costs several times as much
    content = output.get("content") if isinstance(output, Mapping) else None
    if not isinstance(content, (list, tuple)):
        return output
    structured = output.get("structuredContent")
    if structured is not None:
        return structured
    texts = [text for block in content if (text := _text(block)) is not None]
    if len(texts) == 1 == len(content):
        return _json_or_text(texts[0])
    return "\n".join(texts) if texts else output


def _text(block: Any) -> str | None:
    text = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None
    return text if isinstance(text, str) else None


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(digits)
    return number


read_json = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite).decode
"""Strict: refuses ``NaN`` and numbers that are infinite."""


def _json_or_text(text: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return text


@lru_cache(maxsize=16384)
def identifier(name: str) -> str:
    """``name`` as TypeScript and Python can write it after a dot: ``read-file`` becomes ``read_file``."""
    made = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    return f"_{made}" if made[0].isdigit() or keyword.iskeyword(made) else made


class Calls:
    """The calls of one run of code."""

    def __init__(self, task: CodeRun, run: Run, catalog: Catalog, *, most: int, most_at_once: int | None) -> None:
        """Take what the calls belong to.

        Args:
            task: The code; its ``tools`` say what it may call.
            run: Its execution, of which the calls are children.
            catalog: Finds tools.
            most: Calls in all.
            most_at_once: Calls under way; more wait for their turn. None where whoever makes them sees to that.
        """
        self._patterns, self._run, self._catalog, self._most = task.tools, run, catalog, most
        self._turns = None if most_at_once is None else asyncio.Semaphore(most_at_once)
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
        tool = self._allowed(name)
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, Mapping):
            message = f"{name}: a tool takes one object with its arguments, such as {{path: 'a'}}."
            raise CallError(name, Failure(BAD_CALL, message))
        self._by_tool[tool] += 1
        # Numbered by tool: calls that run side by side keep their names when the code runs again.
        # Their bytes are made once, however many parts of the chain ask for them.
        call = ToolCall(id=f"{tool}#{self._by_tool[tool]}", tool=tool, arguments=RawObject.of(arguments))
        if self._turns is None:
            return self._value(call, await self._dispatched(call))
        async with self._turns:
            outcome = await self._dispatched(call)
        return self._value(call, outcome)

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
            if identifier(entry.server) == server and identifier(entry.name) == tool and entry.id in visible
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
