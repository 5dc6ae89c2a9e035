"""An approval that one gateway asks for is answered over HTTP at another one, and the call goes on by itself."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from balanced import request

pytestmark = pytest.mark.anyio
MORE = """
[plugins.approvals]
require = ["bank:pay"]
ask_client = false
wait_s = 600

[plugins.http.tokens]
agent = "agent-token"

[plugins.http.tokens.lead]
token = "lead-token"
scopes = ["approve"]
"""


async def asked(url, method, path, key, **more):
    place = url.removesuffix("/mcp")
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}, timeout=60) as http:
        answer = await http.request(method, f"{place}/api/approvals{path}", **more)
    return answer.status_code, answer.json()


async def waiting(url):
    async with asyncio.timeout(120):
        while not (found := (await asked(url, "GET", "", "lead-token"))[1]["approvals"]):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.2)
    return found[0]["approval_id"]


@pytest.mark.parametrize("approve", [True, False])
async def test_an_approval_is_given_at_another_gateway(fleet, approve):
    with fleet(2, more=MORE).running() as running:
        first, second = running.gateways
        await asked(second.url, "GET", "", "lead-token")  # somebody looks, so calls wait
        await asyncio.sleep(1)
        pay = {"name": "bank__pay", "arguments": {"to": "ben"}}
        call = asyncio.ensure_future(request(first.url, "tools/call", pay, "agent-token"))
        id = await waiting(second.url)
        body = {"approve": approve}
        assert (await asked(second.url, "POST", f"/{id}", "agent-token", json=body))[0] == 403
        assert await asked(second.url, "POST", f"/{id}", "lead-token", json=body) == (
            200,
            {"approval_id": id, "state": "approved" if approve else "denied"},
        )
        told = (await call)["result"]
        assert bool(told.get("isError")) is not approve, told
        assert (await asked(first.url, "POST", f"/{id}", "lead-token", json=body))[0] == 409
        assert (await asked(first.url, "POST", "/apr-none", "lead-token", json=body))[0] == 404
        assert running.payments() == (["ben"] if approve else [])
