"""Waiting for processes to be gone."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from pml_agents.processes import to_the_end

pytestmark = pytest.mark.anyio


async def test_waiting_for_the_end_in_a_cancelled_scope_does_not_spin(monkeypatch):
    waits, real = [], asyncio.wait

    def counted(*given, **named):
        waits.append(given)
        return real(*given, **named)

    monkeypatch.setattr(asyncio, "wait", counted)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await to_the_end(asyncio.sleep(0.1))
    assert len(waits) == 1
