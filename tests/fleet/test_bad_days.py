"""Days on which a part goes away or stands still: what clients see, and that it ends."""

from __future__ import annotations

import asyncio
import signal

import httpx2
import pytest
from balanced import accepting, call, initialize, request_in_session, yes

pytestmark = pytest.mark.anyio


async def test_what_a_gateway_keeps_that_stands_still_is_refused_and_goes_on_later(fleet):
    with fleet(2).running() as running:
        first, second = running.gateways
        session = await initialize(first.url, "")
        asked = (await call(first.url, "bank__ask", {"to": "ann"}))["result"]
        await asyncio.sleep(1)  # a session is written within a tenth of a second
        first.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(6)  # longer than one is taken to be well that has just answered
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
        async with httpx2.AsyncClient(timeout=100) as http:
            told = await http.post(second.url, json=message, headers={**accepting(""), "mcp-session-id": session})
        assert (told.status_code, told.headers["retry-after"]) == (503, "1")
        assert "does not answer, and was not asked; try again" in told.text
        refused = await call(second.url, "bank__ask", {"to": "ann"}, **yes(asked, sure=True))
        assert "was not asked; try again" in refused["error"]["message"]
        first.process.send_signal(signal.SIGCONT)
        assert await request_in_session(second.url, session, "") == 200
        answer = await call(second.url, "bank__ask", {"to": "ann"}, **yes(asked, sure=True))
        assert '"accept"' in str(answer), answer
        assert running.payments() == ["asked-ann"]
