"""Outcomes of code: a failure code for each way in which it can end, the same for every sandbox."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pml_hookspecs import Failure, Json, Status

if TYPE_CHECKING:
    from pml_hookspecs import FolderSize

TIMED_OUT = "code.timed_out"
RAISED = "code.raised"
MEMORY = "code.memory"
CALL_LIMIT = "code.call_limit"
OUTPUT_LIMIT = "code.output_limit"
FOLDER_FULL = "code.folder_full"
EXITED = "code.exited"
NESTED = "code.nested"
INVALID = "code.invalid"
FUNCTION_IN_CONTEXT = "code.function_in_context"
INVALID_INPUTS = "code.invalid_inputs"
UNKNOWN_LANGUAGE = "code.unknown_language"
FAULT = "sandbox.fault"

TIMED_OUT_EXIT = 124
"""Exit code of a program that took too long, as ``timeout`` of the coreutils has it."""
KILLED_EXIT = 137
"""Exit code of a program that was killed: 128 and the number of the signal."""
MOST_FRAMES = 20
"""Lines of a stack that are told."""
MOST_MESSAGE = 4000
"""Characters of a message that are told."""


@dataclass(frozen=True, slots=True)
class CodeOutcome:
    """How a run of code ended, with its output or its failure."""

    status: Status
    failure: Failure | None = None
    output: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UncaughtError:
    """An error that code did not catch, in terms of the source as its author wrote it."""

    name: str
    """Type of the error, such as ``TypeError``."""
    message: str
    line: int | None = None
    """From 1; None when the error does not say."""
    column: int | None = None
    """From 1."""
    stack: tuple[str, ...] = ()
    """Innermost first, only what lies in the source."""
    extra: Mapping[str, Json] = field(default_factory=dict)
    """More members for the failure's details."""


def succeeded(output: Json) -> CodeOutcome:
    """The code returned ``output``."""
    return CodeOutcome(Status.OK, None, output)


def failed(code: str, message: str, *, retryable: bool = False, output: Json = None, **details: Json) -> CodeOutcome:
    """Anything that went wrong and has no ending of its own."""
    return CodeOutcome(Status.ERROR, Failure(code, message, retryable, details), output)


def timed_out(limit_s: float, *, output: Json = None) -> CodeOutcome:
    """The code ran into its time limit."""
    message = f"The code ran longer than its limit of {limit_s:g} s and was stopped. Do less, or give it more time."
    return CodeOutcome(Status.TIMED_OUT, Failure(TIMED_OUT, message, details={"limit_s": limit_s}), output)


def raised(error: UncaughtError, *, printed: str = "") -> CodeOutcome:
    """The code raised an error and did not catch it; the message is the sandbox's own."""
    place = "" if error.line is None else f" (line {error.line})"
    said = error.message[:MOST_MESSAGE]
    message = f"{error.name}: {said}{place}" if said else f"{error.name}{place}"
    details: dict[str, Json] = {"name": error.name, "message": said}
    if error.line is not None:
        details["line"] = error.line
    if error.column is not None:
        details["column"] = error.column
    if error.stack:
        details["stack"] = list(error.stack[:MOST_FRAMES])
    if printed:
        details["printed"] = printed
    return CodeOutcome(Status.ERROR, Failure(RAISED, message, details={**details, **error.extra}))


def uncaught_call(
    error: UncaughtError, failure: Failure, status: Status, tool: str, *, printed: str = ""
) -> CodeOutcome:
    """A tool call failed and the code did not catch it.

    A refusal, or a wait for somebody's answer, is that of the whole code: it passes through as it is.
    """
    if status in (Status.DENIED, Status.INPUT_REQUIRED):
        return CodeOutcome(status, failure)
    cause: dict[str, Json] = {"tool": tool, "code": failure.code, "message": failure.message}
    ending = raised(
        UncaughtError(
            name=error.name,
            message=failure.message,
            line=error.line,
            column=error.column,
            stack=error.stack,
            extra={"cause": cause, **error.extra},
        ),
        printed=printed,
    )
    assert ending.failure is not None  # noqa: S101 - raised() gives one
    own = ending.failure
    return CodeOutcome(Status.ERROR, Failure(own.code, own.message, failure.retryable, own.details))


def out_of_memory(limit_bytes: int, *, output: Json = None) -> CodeOutcome:
    """The code wanted more memory than it may have."""
    mebibytes = limit_bytes >> 20
    message = f"The code used more than the {mebibytes} MiB of memory that it may have, and was stopped."
    return failed(MEMORY, message, output=output, limit_bytes=limit_bytes)


def too_many_calls(limit: int, *, output: Json = None) -> CodeOutcome:
    """The code made more calls than it may."""
    message = f"The code made more than {limit} tool calls, and was stopped. Split the work over several runs."
    return failed(CALL_LIMIT, message, output=output, limit=limit)


def too_much_output(what: str, limit_bytes: int, *, output: Json = None) -> CodeOutcome:
    """The code gave out more than it may; ``what`` begins the sentence."""
    message = f"{what} larger than the limit of {limit_bytes} bytes. Return or print less, such as a summary."
    return failed(OUTPUT_LIMIT, message, output=output, limit_bytes=limit_bytes)


def folder_full(limit: FolderSize, *, output: Json = None) -> CodeOutcome:
    """The code filled its folder beyond what it may hold."""
    message = (
        f"The folder of the code may hold {limit.bytes} bytes in {limit.files} files and folders, and the code wrote "
        "more. What it wrote is still there: remove what is not needed."
    )
    return failed(FOLDER_FULL, message, output=output, limit_bytes=limit.bytes, limit_files=limit.files)


def nested_too_deep(limit: int) -> CodeOutcome:
    """What the code gave out is nested more deeply than may be."""
    message = f"What the code returned has more than {limit} levels of nesting. Return something flatter."
    return failed(OUTPUT_LIMIT, message, limit=limit)


def nested_code(limit: int) -> CodeOutcome:
    """Code that is called by code that is called by code, more deeply than may be; nothing ran."""
    message = (
        f"Code that runs code may go {limit} deep, and this would be deeper. Do the work in the outer code, or return "
        "from it and run the next piece then."
    )
    return failed(NESTED, message, limit=limit)


def program_ended(exit_code: int, output: Json) -> CodeOutcome:
    """A program ended by itself: well with exit code 0, else as a failure that has the streams all the same."""
    if exit_code == 0:
        return succeeded(output)
    return failed(EXITED, f"The program ended with exit code {exit_code}.", output=output, exit_code=exit_code)


def exited(returncode: int, said: str) -> CodeOutcome:
    """The process of the code ended before the code did; a negative code is the number of a signal."""
    how = f"was ended by signal {-returncode}" if returncode < 0 else f"exited with code {returncode}"
    last = f" It said: {said[-MOST_MESSAGE:]}" if said else ""
    return failed(EXITED, f"The code {how} before it returned anything.{last}", exit_code=returncode)


def fault(message: str) -> CodeOutcome:
    """The sandbox itself failed, not the code."""
    return failed(FAULT, message)


def not_started(problem: Exception) -> CodeOutcome:
    """No process could be had for the code; nothing ran. That passes where descriptors are what is lacking."""
    if getattr(problem, "errno", None) in (errno.EMFILE, errno.ENFILE):
        message = (
            "The gateway has too many files open to start a sandbox. Run fewer pieces of code at once, or try again; "
            "the operator can raise the limit (ulimit -n)."
        )
        return failed(FAULT, message, retryable=True)
    return fault("The sandbox cannot be started; see the gateway's log and pml plugins doctor.")


def unknown_language(language: str, known: Mapping[str, Any] | frozenset[str]) -> CodeOutcome:
    """A language that this sandbox does not run."""
    names = ", ".join(sorted(known))
    return failed(UNKNOWN_LANGUAGE, f"This sandbox runs {names}, not {language!r}.", language=language)
