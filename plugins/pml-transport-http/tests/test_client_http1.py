"""HTTP/1.1 itself: connections that are kept, bodies of all kinds, TLS."""

from __future__ import annotations

import asyncio
import datetime as dt
import gzip
import ipaddress
import json
import socket
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pml_hookspecs import TransportError
from pml_testing.transport_ends import SOON_S

pytestmark = pytest.mark.anyio

MIB = 1 << 20


async def ask(link, method="m", params=None, *, timeout_s=SOON_S):
    return await link.request(method, params or {}, timeout_s=timeout_s)


async def plain(request, stream):
    if request.method == "POST":
        return await stream.result(request, {})
    return await stream.status("200 OK")


async def test_requests_one_after_the_other_share_a_connection(raw, connect):
    async def reply(request, stream):
        used.add(id(stream.writer))
        if request.message["method"] == "stream":
            await stream.open()
            await stream.event({"jsonrpc": "2.0", "id": request.message["id"], "result": {}})
            return await stream.close()
        return await stream.result(request, {})

    used = set()
    async with connect((await raw(reply)).url) as link:
        for method in ("m", "stream", "m", "stream", "m"):
            await ask(link, method)
            await asyncio.sleep(0.01)
    assert len(used) == 1


async def test_a_connection_that_the_server_closed_is_not_used_again(raw, connect):
    async def reply(request, stream):
        await stream.result(request, {})
        return "closed"

    async with connect((await raw(reply)).url) as link:
        for _ in range(5):
            assert await ask(link) == {}
            await asyncio.sleep(0.02)


async def test_a_connection_is_not_used_again_where_the_server_says_so(raw, connect):
    async def reply(request, stream):
        used.add(id(stream.writer))
        kept.append(stream.writer)
        await stream.result(request, {}, Connection="close")

    used, kept = set(), []
    async with connect((await raw(reply)).url) as link:
        for _ in range(3):
            await ask(link)
    assert len(used) == 3


async def test_what_comes_before_an_answer_is_passed_over(raw, connect):
    async def reply(request, stream):
        await stream.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        await stream.result(request, {"a": 1})

    async with connect((await raw(reply)).url) as link:
        assert await ask(link) == {"a": 1}
        assert await ask(link) == {"a": 1}


async def test_a_body_may_end_with_its_connection(raw, connect):
    async def reply(request, stream):
        body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": {"a": 1}}).encode()
        await stream.send(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + body)
        return "closed"

    async with connect((await raw(reply)).url) as link:
        assert await ask(link) == {"a": 1}


CUTS = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "half a body": b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"json',
    "half a chunk": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nx",
    "no http": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "an upgrade": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
}


@pytest.mark.parametrize("cut", CUTS)
async def test_an_answer_that_is_cut_or_none_fails_its_request_at_once(raw, connect, cut):
    async def reply(request, stream):
        if request.message["method"] == "m":
            await stream.send(CUTS[cut])
            return "closed"
        return await stream.result(request, {})

    async with connect((await raw(reply)).url) as link:
        async with asyncio.timeout(SOON_S):
            with pytest.raises(TransportError, match="'git': the connection broke: ") as caught:
                await ask(link, timeout_s=2 * SOON_S)
        assert caught.value.retryable
        assert await ask(link, "other") == {}


async def test_a_compressed_answer_is_understood(raw, connect):
    async def reply(request, stream):
        assert "gzip" in request.headers["accept-encoding"]
        body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": {"text": "x" * MIB}}).encode()
        await stream.json(gzip.compress(body), Content_Encoding="gzip")

    async with connect((await raw(reply)).url) as link:
        assert len((await ask(link))["text"]) == MIB


async def test_cookies_come_back(raw, connect):
    async def reply(request, stream):
        await stream.result(request, {"cookie": request.headers.get("cookie")}, Set_Cookie="route=a; Path=/")

    async with connect((await raw(reply)).url) as link:
        assert await ask(link) == {"cookie": None}
        assert await ask(link) == {"cookie": "route=a"}


async def test_big_messages_travel_both_ways(raw, connect):
    async def reply(request, stream):
        await stream.result(request, {"length": len(request.message["params"]["text"]), "text": "x" * 20 * MIB})

    async with connect((await raw(reply)).url) as link:
        answer = await ask(link, params={"text": "y" * 20 * MIB}, timeout_s=4 * SOON_S)
    assert answer["length"] == len(answer["text"]) == 20 * MIB


async def test_a_server_that_does_not_read_costs_its_caller_the_time_limit_only(raw, connect):
    async def reply(request, stream):
        await asyncio.Event().wait()

    server = await raw(reply)
    async with connect(server.url) as link:
        loop = asyncio.get_running_loop()
        began = loop.time()
        failures = await asyncio.gather(
            *(ask(link, params={"text": "y" * 4 * MIB}, timeout_s=0.3) for _ in range(3)), return_exceptions=True
        )
        assert [type(failure) for failure in failures] == [TimeoutError] * 3
        assert loop.time() - began < SOON_S


async def test_a_host_that_takes_no_connections_fails_in_time(connect):
    """Its queue of connections is full, so that nobody answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        queued = []
        for _ in range(4):
            queued.append(socket.socket())
            queued[-1].setblocking(False)
            queued[-1].connect_ex(listening.getsockname())
        try:
            with pytest.raises(TransportError, match=r"'git' cannot be reached at .*: no connection in 0\.3 s"):
                async with connect(url, settings={"connect_timeout_s": 0.3}):
                    pass
        finally:
            for one in queued:
                one.close()


@pytest.fixture
def certificate(tmp_path):
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return file


async def serve_tls(raw, certificate):
    async def reply(request, stream):
        await stream.result(request, {"secure": True})

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = await raw(reply, ssl=context)
    return server.url.replace("http:", "https:")


async def test_a_server_behind_tls_is_reached(raw, connect, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with connect(await serve_tls(raw, certificate)) as link:
        for _ in range(3):
            assert await ask(link) == {"secure": True}


async def test_a_server_that_nobody_vouches_for_is_refused(raw, connect, certificate):
    async with connect(await serve_tls(raw, certificate)) as link:
        with pytest.raises(TransportError, match=r"(?i)'git' cannot be reached.*certificate"):
            await ask(link)


@pytest.mark.parametrize(("status", "followed"), [("307 Temporary Redirect", True), ("302 Found", False)])
async def test_a_redirect_is_followed_where_nothing_gets_lost(raw, connect, status, followed):
    async def reply(request, stream):
        if not served:
            served.append(request)
            return await stream.status(status, Location="/mcp/")
        return await stream.result(request, {"body": request.message["params"]})

    served = []
    async with connect((await raw(reply)).url) as link:
        if followed:
            assert await ask(link, params={"a": 1}) == {"body": {"a": 1}}
        else:
            with pytest.raises(TransportError, match="sends us elsewhere"):
                await ask(link)


async def test_credentials_do_not_follow_a_redirect_to_another_host(raw, connect):
    async def elsewhere(request, stream):
        return await stream.result(request, {})

    other = await raw(elsewhere)

    async def reply(request, stream):
        return await stream.status("307 Temporary Redirect", Location=other.url + "?state=secret")

    async with connect((await raw(reply)).url, bearer="token") as link:
        with pytest.raises(TransportError, match="sends us elsewhere") as caught:
            await ask(link)
    assert "secret" not in str(caught.value)
    assert other.requests == []


async def test_headers_and_bearer_are_sent_with_everything(raw, connect):
    server = await raw(plain)
    async with connect(server.url, headers={"X-Tenant": "t1é"}, bearer="abc") as link:
        await ask(link)
        link.notify("notifications/n", {})
        await ask(link)
    assert {request.headers["x-tenant"] for request in server.requests} == {"t1é"}
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer abc"}
