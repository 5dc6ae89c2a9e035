"""What probes and scrapers are told, by whatever address they call, and what strangers are not."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from listening import listening

from pml_hookspecs import TransportError
from pml_kit.offers import METRICS_PAGE, READINESS, ReadinessPart

pytestmark = pytest.mark.anyio
ADA = {"authorization": "Bearer secret"}
FOREIGN = {"host": "evil.example"}
PAGE = "# TYPE pml_executions_total counter\npml_executions_total 7\n"


class Gateway:
    """Readiness and metrics as a test says."""

    def __init__(self):
        self.shutting_down = False
        self.store = ReadinessPart("store", ready=True)

    async def parts(self):
        ends = ReadinessPart("gateway", not self.shutting_down, "it has been told to end" * self.shutting_down)
        return [ends, self.store]

    async def page(self):
        return PAGE


@pytest.fixture
def gateway(services):
    made = Gateway()
    services.offer(READINESS, made)
    services.offer(METRICS_PAGE, made)
    return made


async def raw(listener, text):
    """What the listener answers to ``text``."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(text.encode())
    said = await reader.read()
    writer.close()
    return said.decode()


async def test_whoever_watches_over_the_gateway_can_see_that_it_is_there(services):
    async with listening(services, tokens={"ada": "secret"}) as listener, listener.client() as client:
        for headers in ({}, FOREIGN, {"host": f"10.1.2.3:{listener.port}"}, {"origin": "https://evil.example"}):
            response = await client.http.get("/healthz", headers=headers)
            assert (response.status_code, response.json()) == (200, {"status": "ok"})
        assert (await raw(listener, "GET /healthz HTTP/1.0\r\n\r\n")).startswith("HTTP/1.1 200")
        assert (await raw(listener, "GET /readyz HTTP/1.0\r\n\r\n")).startswith("HTTP/1.1 200")


async def test_a_gateway_is_ready_when_every_part_is(services, gateway):
    async with listening(services) as listener, listener.client() as client:
        ready = await client.http.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "ready")
        gateway.store = ReadinessPart("store", ready=False, detail="the disk is full")
        response = await client.http.get("/readyz")
        assert response.status_code == 503
        store = {"ready": False, "detail": "the disk is full"}
        assert response.json() == {"status": "not ready", "parts": {"gateway": {"ready": True}, "store": store}}


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {**ADA, **FOREIGN}])
async def test_strangers_are_not_told_what_is_wrong(services, gateway, headers):
    gateway.store = ReadinessPart("store", ready=False, detail="db7.internal does not answer")
    async with listening(services, tokens={"ada": "secret"}) as listener, listener.client() as client:
        response = await client.http.get("/readyz", headers=headers)
        assert response.status_code == 503
        assert response.json()["parts"]["store"] == {"ready": False}
        assert "db7" not in response.text
        assert "db7" in (await client.http.get("/readyz", headers=ADA)).text
    assert services.access == []


async def test_one_that_is_told_to_end_still_serves_and_keeps_no_connection(services, gateway):
    async with listening(services) as listener, listener.client() as client:
        assert "connection" not in (await client.modern("tools/list")).headers
        gateway.shutting_down = True
        for response in (await client.http.get("/healthz"), await client.modern("tools/list")):
            assert (response.status_code, response.headers["connection"]) == (200, "close")
        response = await client.http.get("/readyz")
        assert (response.status_code, response.headers["connection"]) == (503, "close")


async def test_metrics_are_for_those_who_have_a_key(services, gateway):
    async with listening(services, tokens={"ada": "secret"}) as listener, listener.client() as client:
        refused = await client.http.get("/metrics")
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "access.unauthenticated")
        assert (await client.http.get("/metrics", headers={**ADA, **FOREIGN})).status_code == 403
        response = await client.http.get("/metrics", headers=ADA)
        assert (response.status_code, response.text) == (200, PAGE)
        assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert [(event.kind, event.target) for event in services.access] == [("denied", "GET /metrics")] * 2


@pytest.mark.parametrize(("network", "status"), [("127.0.0.0/8", 200), ("10.0.0.0/8", 401)])
async def test_scrapers_of_a_network_need_no_key(services, gateway, network, status):
    settings = {"tokens": {"ada": "secret"}, "metrics_networks": (network,)}
    async with listening(services, **settings) as listener, listener.client() as client:
        assert (await client.http.get("/metrics", headers=FOREIGN)).status_code == (200 if status == 200 else 403)
        assert (await client.http.get("/metrics")).status_code == status
        assert (await client.http.get("/mcp")).status_code == 401


async def test_who_asks_for_metrics_that_nobody_has_is_told_how_to_get_them(services):
    async with listening(services) as listener, listener.client() as client:
        response = await client.http.get("/metrics")
        assert response.status_code == 404
        assert "tracers" in response.json()["error"]["message"]


async def test_a_network_that_is_none_is_told(services):
    with pytest.raises(TransportError, match="metrics_networks"):
        async with listening(services, metrics_networks=("everywhere",)):
            raise AssertionError


async def test_a_probe_does_not_wait_for_a_store_that_knows_the_keys(services, gateway, monkeypatch):
    monkeypatch.setattr("pml_transport_http.server.probes.CALLER_S", 0.05)

    async def identify(_token):
        await asyncio.Event().wait()

    async with listening(services, tokens={"ada": "secret"}) as listener, httpx2.AsyncClient() as client:
        services.identify = identify
        assert listener.port
        response = await client.get(f"{listener.url}/readyz", headers={"authorization": "Bearer other"})
        assert (response.status_code, response.json()["parts"]["store"]) == (200, {"ready": True})
