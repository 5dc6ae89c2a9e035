"""What the tests of the core share."""

from __future__ import annotations

import asyncio
import sys

import pytest

from pml_hookspecs import RawObject
from pml_testing.commands import cache_of_entry_points, installation, kept, no_local_modules, place, policy
from pml_testing.gateway import ScriptedLink

__all__ = ["cache_of_entry_points", "installation", "kept", "no_local_modules", "place", "policy"]


@pytest.fixture
def quick(monkeypatch):
    """Pauses before another attempt take no time; those asked for are kept."""
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(delay_s, result=None):
        if sys._getframe(1).f_globals["__name__"] != "pml_mcp.servers.connection.connection":
            return await sleep(delay_s, result)
        pauses.append(delay_s)
        return await sleep(0, result)

    monkeypatch.setattr(asyncio, "sleep", noted)
    return pauses


@pytest.fixture
def sent(monkeypatch):
    """Every request that a server was sent, as bytes."""
    kept: list[tuple[str, bytes]] = []
    request = ScriptedLink.request

    async def spied(self, method, params, *, timeout_s):
        kept.append((method, RawObject.of(params).raw))
        return await request(self, method, params, timeout_s=timeout_s)

    monkeypatch.setattr(ScriptedLink, "request", spied)
    return kept
