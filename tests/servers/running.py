"""A server compared: installed, probed, played directly and on every way."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import jail
from allowed import explanation
from comparing import Difference, compared, skipped
from entries import Entry
from installing import AbsentError, installed
from playing import Recording, Step, plan, played
from ways import DIRECT, direct, through

Told = Callable[[str], None]
MOST_RUNS = 5
"""Direct runs; those after the second are made when a way differs, to see whether that moves by itself."""
LONGEST_S = 900.0
"""Longest for one way to one server [s]."""


@dataclass
class Outcome:
    """What came of one server."""

    entry: Entry
    absent: str = ""
    """Why it is not here, or does not start; empty for one that was compared."""
    command: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)
    """Requests that have no answer directly either, by title, with why."""
    direct: list[Recording] = field(default_factory=list)
    differences: dict[str, list[Difference]] = field(default_factory=dict)
    """By way; a way that did not come about is not here."""
    broken: dict[str, str] = field(default_factory=dict)
    """Ways that did not come about, with why."""

    @property
    def unexplained(self) -> list[Difference]:
        """The differences that no rule explains."""
        return [each for found in self.differences.values() for each in found if explanation(each) is None]


async def _probed(outcome: Outcome, folder: Path, told: Told) -> None:
    """Find out what it can be asked; a request without an answer, or that ends it, is asked no more."""
    async with direct(outcome.command, folder) as connection:
        first = await played(connection, DIRECT, outcome.entry.name, ())
    if not isinstance(first.lists["tools/list"], list):
        raise AbsentError(f"its list of tools cannot be read: {first.lists['tools/list']}"[:200])
    outcome.tools = [tool["name"] for tool in first.lists["tools/list"]]
    left = plan(outcome.entry, first)
    while left:
        async with direct(outcome.command, folder) as connection:
            found = await played(connection, DIRECT, outcome.entry.name, left, lambda done: told(f"probed {done}"))
        if not outcome.dropped and not outcome.steps and _all_answered(found):
            outcome.direct.append(found)
        for step, answer in found.answers.items():
            if "silent" in answer or "closed" in answer:
                outcome.dropped[step.title] = "no answer in time" if "silent" in answer else "ended the server"
            else:
                outcome.steps.append(step)
        left = left[len(found.answers) :]


def _all_answered(found: Recording) -> bool:
    return not any("silent" in answer or "closed" in answer for answer in found.answers.values())


async def again(outcome: Outcome, folder: Path) -> None:
    """One more direct run."""
    async with direct(outcome.command, folder) as connection:
        outcome.direct.append(await played(connection, DIRECT, outcome.entry.name, outcome.steps))


async def prepared(entry: Entry, folder: Path, *, may_install: bool, told: Told) -> Outcome:
    """The server, played directly twice. Never raises for what is the server's own."""
    outcome = Outcome(entry)
    try:
        program = await anyio.to_thread.run_sync(lambda: installed(entry, may_install=may_install))
        outcome.command = jail.command(entry, program)
        with anyio.fail_after(LONGEST_S):
            await _probed(outcome, folder / DIRECT, told)
            while len(outcome.direct) < 2:
                told(f"direct run {len(outcome.direct) + 1}")
                await again(outcome, folder / DIRECT)
    except AbsentError as exc:
        outcome.absent = str(exc)
    except Exception as exc:
        outcome.absent = f"does not start: {_reason(exc)}; {_last_words(folder / DIRECT / 'server.log')}"
    return outcome


def _reason(exc: BaseException) -> str:
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return (str(exc) or type(exc).__name__).splitlines()[0]


def _last_words(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    said = [line.strip() for line in text.splitlines() if line.strip()]
    return said[-1][:200] if said else "it said nothing"


def asked(outcome: Outcome, way: str) -> list[Step]:
    """What is sent on a way; ``call_tool`` is for tools alone."""
    return [step for step in outcome.steps if way != "call_tool" or step.method == "tools/call"]


async def compare(outcome: Outcome, ways: Sequence[str], folder: Path, told: Told) -> None:
    """Play it on each way, with a gateway of its own each time."""
    name = outcome.entry.name
    for way in ways:
        told(way)

        async def record(way: str = way) -> Recording:
            place = folder / way
            shutil.rmtree(place, ignore_errors=True)
            async with through(way, {name: outcome.command}, place) as connection:
                recording = await played(connection, way, name, asked(outcome, way))
            if not skipped(way, "initialize"):
                # Of a server that it starts for the first time the gateway cannot know, nor waits to know, who it is.
                async with through(way, {name: outcome.command}, place) as connection:
                    recording.initialized = connection.initialized
            return recording

        await judged(outcome, way, record, folder)


async def judged(outcome: Outcome, way: str, record: Callable[[], Any], folder: Path) -> None:
    """Record a way and note what differs; before something counts, it is played directly again."""
    try:
        with anyio.fail_after(LONGEST_S):
            recording = await record()
            found = list(compared(outcome.entry, way, outcome.direct, recording))
            while any(explanation(each) is None for each in found) and len(outcome.direct) < MOST_RUNS:
                await again(outcome, folder / DIRECT)
                found = list(compared(outcome.entry, way, outcome.direct, recording))
            outcome.differences[way] = found
    except Exception as exc:
        outcome.broken[way] = _reason(exc)
