"""What a command does ends while its gateway stands still."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from agents_kit import happens

from pml_agents import turn_watchdog
from pml_agents.turn_watchdog import watched_turn

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="nothing tells what carries the mark"),
]


def shells():
    """Of watchdogs that there are."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"pml-agent-turn" in words:
            found.append(words)
    return [words for words in found if any(word.endswith(b"=mine") for word in words)]


async def test_it_ends_what_carries_the_mark_when_it_hears_nothing(monkeypatch):
    monkeypatch.setattr(turn_watchdog, "TICK_S", 0.1)
    monkeypatch.setattr(turn_watchdog, "BEAT_S", 600)
    async with watched_turn("mine") as variables:
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        process = await asyncio.create_subprocess_exec(*command, env=variables, start_new_session=True)
        async with asyncio.timeout(120):
            assert await process.wait() < 0


async def test_nothing_of_it_is_left():
    async with watched_turn("mine"):
        await happens(shells)
    await happens(lambda: not shells())
