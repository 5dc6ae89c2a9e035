"""Four gateways: a question that one asked is answered at any of them, and what ran before it runs once."""

from __future__ import annotations

import signal

import pytest
from balanced import call, yes

pytestmark = pytest.mark.anyio
TIMES = 6


def plan(name):
    pay = {"tool": "bank:pay", "arguments": {"to": f"{name}-first"}}
    then = {"tool": "bank:pay", "arguments": {"to": f"{name}-second"}, "depends_on": ["a"], "approve": True}
    return {"workflow": {"tasks": [{"id": "a", **pay}, {"id": "b", **then}]}}


async def test_a_plan_that_waits_for_approval_goes_on_at_any_gateway(fleet):
    with fleet(4).running() as running:
        for number in range(TIMES):
            asked = (await call(running.url, "execute_workflow", plan(number)))["result"]
            assert asked["resultType"] == "input_required", asked
            told = await call(running.url, "execute_workflow", plan(number), **yes(asked, approve=True))
            assert "result" in told, (told, running.logs())
            assert not told["result"].get("isError"), told
        expected = [f"{number}-{part}" for number in range(TIMES) for part in ("first", "second")]
        assert running.payments() == expected


async def test_a_tool_that_asks_is_called_once(fleet):
    with fleet(4).running() as running:
        for number in range(TIMES):
            asked = (await call(running.url, "bank__ask", {"to": number}))["result"]
            assert asked["resultType"] == "input_required", asked
            told = await call(running.url, "bank__ask", {"to": number}, **yes(asked, sure=True))
            assert "result" in told, (told, running.logs())
            assert "accept" in told["result"]["content"][0]["text"], told
        assert running.payments() == [f"asked-{number}" for number in range(TIMES)]


async def test_what_a_killed_gateway_kept_is_lost_and_said_to_be(fleet):
    with fleet(2).running() as running:
        first, second = running.gateways
        asked = (await call(first.url, "execute_workflow", plan("x")))["result"]
        first.end(signal.SIGKILL)
        for _ in range(3):
            told = await call(second.url, "execute_workflow", plan("x"), **yes(asked, approve=True))
            assert "is gone" in told["error"]["message"], told
        assert running.payments() == ["x-first"]


async def test_a_gateway_that_is_asked_wrongly_still_refuses(fleet):
    """What is led is judged where it is led: another request may not use the state."""
    with fleet(2).running() as running:
        first, second = running.gateways
        asked = (await call(first.url, "bank__ask", {"to": "x"}))["result"]
        told = await call(second.url, "bank__pay", {"to": "y"}, **yes(asked, sure=True))
        assert "belongs to another request" in told["error"]["message"], told
        assert running.payments() == ["asked-x"]
