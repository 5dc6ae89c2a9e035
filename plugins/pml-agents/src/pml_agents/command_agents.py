"""Agents that are command lines."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from pml_kit.processes.tree import signal_name

from .answers import Answer, UnreadableError, reader
from .failures import AgentError
from .processes import FloodError, ProcessExit, run_program
from .settings import CONTEXT, MESSAGE, Agent

USUAL_VARIABLES = ("PATH", "HOME", "LANG")
LONGEST_ARGUMENT = 128 * 1024 - 1
"""Linux takes no longer one [bytes]."""
SHOWN = 600
"""How much of an agent's last words stands in a message [characters]."""


async def ask(agent: Agent, message: str, context: str, told: Callable[[int, str], None]) -> Answer:
    """Run the command and read its output.

    Raises:
        AgentError: It cannot be started, fails, or prints what its parser does not read.
    """
    argv, given = arguments(agent, message, context)
    output = reader(agent.parser or "text", agent.max_output_bytes, agent.fields, told)
    if agent.cwd and not _is_folder(agent.cwd):
        raise AgentError("agent.start", f"its working folder {agent.cwd!r} is not a folder; correct cwd")
    try:
        ended = await run_program(
            argv,
            env=environment(agent),
            cwd=agent.cwd or None,
            given=given,
            limit_bytes=agent.max_output_bytes,
            take=output.take,
        )
    except (OSError, ValueError) as exc:
        raise AgentError("agent.start", problem(argv[0], exc)) from exc
    except FloodError:
        raise AgentError("agent.output", "it wrote without end and was ended") from None
    return _answer(ended, output.answer)


def _is_folder(path: str) -> bool:
    return Path(path).is_dir()


def _answer(ended: ProcessExit, read: Callable[[], Answer]) -> Answer:
    try:
        answer = read()
    except UnreadableError as exc:
        if ended.code == 0:
            raise AgentError("agent.output", f"{exc}{_words(ended)}") from None
        raise AgentError("agent.failed", f"{_end(ended)}{_words(ended)}") from None
    if ended.code != 0 and not answer.error:
        said = _words(ended) or (f"; it printed: {_cut(answer.response)}" if answer.response else "")
        answer.error = f"{_end(ended)}{said}"
    return answer


def arguments(agent: Agent, message: str, context: str) -> tuple[list[str], bytes | None]:
    """The command line, and what it gets on standard input; None for nothing.

    Raises:
        AgentError: The message cannot be an argument.
    """
    takes_context = any(CONTEXT in part for part in agent.command)
    whole = message if takes_context or not context else f"{message}\n\n{context}"
    if not any(MESSAGE in part for part in agent.command):
        return [_filled(part, "", context) for part in agent.command], whole.encode("utf-8", "replace")
    argv = [_filled(part, whole, context) for part in agent.command]
    if any("\0" in part for part in argv):
        raise AgentError("agent.message", "the message holds a NUL character, which no argument can")
    if any(len(part.encode("utf-8", "replace")) > LONGEST_ARGUMENT for part in argv):
        remedy = "leave {message} out of command, so that it comes on standard input"
        raise AgentError("agent.message", f"the message is too long for an argument (128 KiB); {remedy}")
    return argv, None


def _filled(part: str, message: str, context: str) -> str:
    """An argument of the command line. What it is filled with must not make an option of it."""
    # In one go: a message may itself say {context}.
    text = message.join(piece.replace(CONTEXT, context) for piece in part.split(MESSAGE))
    return f" {text}" if text.startswith("-") and not part.startswith("-") else text


def environment(agent: Agent) -> Mapping[str, str]:
    """All that the command gets."""
    names = (*USUAL_VARIABLES, *agent.inherit)
    return {**{name: os.environ[name] for name in names if name in os.environ}, **agent.env}


def problem(program: str, exc: OSError | ValueError) -> str:
    """Why a program cannot be started, and what to do."""
    if isinstance(exc, FileNotFoundError):
        return f"its program {program!r} is not there; install it, or give its full path in command"
    if isinstance(exc, PermissionError):
        return f"its program {program!r} is not executable; make it so (chmod +x)"
    if isinstance(exc, OSError) and exc.errno == errno.E2BIG:
        return "the message is too long for an argument; leave {message} out of command"
    return f"its program {program!r} cannot be started: {getattr(exc, 'strerror', None) or exc}"


def _end(ended: ProcessExit) -> str:
    return f"it was ended by {signal_name(-ended.code)}" if ended.code < 0 else f"it exited with code {ended.code}"


def _words(ended: ProcessExit) -> str:
    return f"; the end of its standard error: {_cut(ended.last_words)}" if ended.last_words else ""


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"…{text[-SHOWN:]}"
