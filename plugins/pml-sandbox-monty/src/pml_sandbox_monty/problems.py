"""What Monty says of an error, in the terms of all sandboxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pml_sandbox import outcomes
from pml_sandbox.dialect import error_at
from pml_sandbox.outcomes import UncaughtError

if TYPE_CHECKING:
    from pydantic_monty import MontyError

    from pml_sandbox.calls import CallError
    from pml_sandbox.outcomes import CodeOutcome

ELSEWHERE = (
    "This sandbox runs a part of Python that starts in a millisecond. What it lacks (base classes, generators, most "
    "modules) needs the executor of pml-sandbox-cpython, or TypeScript."
)
_LIMITS = ("time limit exceeded", "sleep limit")


def missing_module(name: str) -> str:
    """The message of an import that does not work."""
    return f"No module named {name!r} in this sandbox. {ELSEWHERE}"


def ending_of(
    error: MontyError, limit_s: float, memory_bytes: int, failed: Mapping[str, CallError], printed: str
) -> CodeOutcome:
    """How code ended that raised ``error``.

    Args:
        error: What Monty raised.
        limit_s: Its time limit [s].
        memory_bytes: What it may use.
        failed: Calls that failed, by what the code was told.
        printed: What the code has printed.
    """
    inner = error.exception()
    message = str(inner)
    if isinstance(inner, TimeoutError) and any(text in message for text in _LIMITS):
        return outcomes.timed_out(limit_s)
    if isinstance(inner, MemoryError):
        return outcomes.out_of_memory(memory_bytes)
    told = describe(error)
    if (call := failed.get(message)) is not None and isinstance(inner, RuntimeError):
        named = UncaughtError(name="ToolError", message=message, line=told.line, column=told.column, stack=told.stack)
        return outcomes.uncaught_call(named, call.failure, call.status, call.tool, printed=printed)
    return outcomes.raised(told, printed=printed)


def describe(error: MontyError) -> UncaughtError:
    """Name, message and places."""
    inner = error.exception()
    name, message = type(inner).__name__, str(inner)
    frames = list(reversed(error.traceback())) if hasattr(error, "traceback") else []
    lacking = isinstance(inner, NotImplementedError) and frames and frames[0].function_name is None
    if lacking or message.startswith("Internal error in monty"):
        message = f"{message.replace('The monty syntax parser', 'Monty')}. {ELSEWHERE}"
    elif message == "'Tools' object is not subscriptable":
        message = 'Call a tool by its full name as tools("server:tool", name=value).'
    places = [(_where(frame.function_name), frame.line, frame.column) for frame in frames[: outcomes.MOST_FRAMES]]
    return error_at(places, {"name": name, "message": message})


def _where(function: str | None) -> str:
    return "the code" if function in (None, "<module>") else function or ""
