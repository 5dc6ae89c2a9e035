"""Run a program to its end, and never leave it behind."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pml_kit.system.environment import passed_on

from .problem import DemoError

MOST_LINES = 15
"""Lines from the end of a failed program's output that its message quotes."""


async def run(
    command: Sequence[str], *, limit_s: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run ``command`` and wait for it; it and what it started is killed when that is cancelled.

    Args:
        limit_s: Longest it may take [s].
        cwd: Where it runs; where the demo does if not given.
        env: Its whole environment; what every program gets if not given.

    Returns:
        What it wrote to standard output and standard error.

    Raises:
        DemoError: It cannot be started, takes too long, or its exit status is not 0.
    """
    env = passed_on(os.environ) if env is None else env
    name = shlex.join(command[:4]) + (" …" if len(command) > 4 else "")  # noqa: PLR2004 - as many as tell what it is
    try:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=cwd, env=env, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True
        )
    except OSError as exc:
        raise DemoError(f"{name} cannot be started: {exc.strerror}") from exc
    try:
        async with asyncio.timeout(limit_s):
            output, _ = await process.communicate()
    except TimeoutError:
        raise DemoError(f"{name} took longer than {limit_s:g} s; it was stopped") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    text = output.decode(errors="replace")
    if process.returncode != 0:
        tail = "\n".join(f"  {line}" for line in text.strip().splitlines()[-MOST_LINES:])
        raise DemoError(f"{name} ended with status {process.returncode}:\n{tail or '  (no output)'}")
    return text
