"""Run the demo from the command line: temporary folder, signals, what is printed, exit status."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from .connect import connections, pml_command
from .problem import DemoError

if TYPE_CHECKING:
    import argparse

    from .story import Report

LOG_LINES = 20
"""Lines from the end of the gateway's log that a failure quotes."""


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; 0 when everything worked, 1 when something did not, 130 or 143 when it was stopped."""
    from rich.console import Console

    from .progress import Steps

    began = time.monotonic()
    console = Console(stderr=True)
    with _folder(keep=arguments.keep) as folder, _log(folder, verbose=arguments.verbose) as log:
        try:
            with Steps(console, live=console.is_terminal and not arguments.verbose) as steps:
                status, report = _told(folder, steps, log, node=arguments.node)
        except DemoError as exc:
            return _failed(str(exc), log, as_json=arguments.json)
        except Exception as exc:
            if arguments.verbose:
                raise
            # A fault of the demo's own, or an answer of the gateway that it cannot read: one sentence here, too.
            return _failed(f"unexpected {type(exc).__name__}: {exc}", log, as_json=arguments.json)
        if report is None:
            return status
        document = {
            **asdict(report),
            "connect": [asdict(c) for c in connections(pml_command())],
            "steps_s": steps.took_s,
            "took_s": round(time.monotonic() - began, 1),
            "kept": str(folder) if arguments.keep else None,
        }
    if arguments.json:
        print(json.dumps(document, indent=2, ensure_ascii=False))  # noqa: T201 - the command's result
        return 0
    from .screen import show

    show(document, Console())
    return 0


def _told(folder: Path, steps: Any, log: TextIO, *, node: bool) -> tuple[int, Report | None]:
    """The report; none, and the exit status, when a signal came first."""
    from .story import Story

    stopped: list[int] = []

    async def tell() -> Report:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()

        def stop(number: int) -> None:
            stopped.append(number)
            if task is not None:
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        return await Story(folder, steps, log, node=node).tell()

    try:
        return 0, asyncio.run(tell())
    except asyncio.CancelledError:
        if not stopped:
            raise
        return 128 + stopped[0], None


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    """A temporary folder, removed at the end whatever happens."""
    # Resolved, because servers compare it with the paths they are given.
    folder = Path(tempfile.mkdtemp(prefix="pml-demo-")).resolve()
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _log(folder: Path, *, verbose: bool) -> Iterator[TextIO]:
    if verbose:
        yield sys.stderr
        return
    with (folder / "gateway.log").open("a+", encoding="utf-8", errors="replace") as log:
        yield log


def _failed(message: str, log: TextIO, *, as_json: bool) -> int:
    print(f"pml demo: {message}", file=sys.stderr)  # noqa: T201 - the command's result
    if log is not sys.stderr:
        log.seek(0)
        lines = log.read().splitlines()[-LOG_LINES:]
        if lines:
            print("The gateway's log ends with:", *lines, sep="\n  ", file=sys.stderr)  # noqa: T201
            print("Show all of it with: pml demo --verbose", file=sys.stderr)  # noqa: T201
    if as_json:
        print(json.dumps({"error": message}, ensure_ascii=False))  # noqa: T201
    return 1
