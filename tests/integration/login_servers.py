"""An authorization server that people log in at, and an MCP server that notes whose token came with which request."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

import pml_executor_dag.tool
from pml_clients.configuration.files import Source
from pml_core.gateway import Gateway
from pml_core.plugins import registry
from pml_executor_dag import Dag
from pml_exposure_full_proxy import FullProxy
from pml_hookspecs import Endpoint
from pml_settings.config import Config, GatewaySettings, ServerSettings
from pml_store_sqlite import SqliteStore
from pml_testing.gateway import provided
from pml_transport_http import Http

MODERN = "2026-07-28"
PERSON = "x-person"
"""Header by which a browser says who sits at it."""
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"


class Authority:
    """Whoever comes with a browser agrees to everything; tokens are renewed once each, and can be taken back."""

    def __init__(self) -> None:
        self.url = ""
        self.lifetime_s: float = 3600
        self.codes: dict[str, tuple[str, str]] = {}
        """Person and challenge."""
        self.refreshes: dict[str, str] = {}
        self.persons: dict[str, str] = {}
        """Of every access token that was ever given out."""
        self.valid: set[str] = set()
        self.clients = 0
        self.wrong: list[str] = []
        """What nobody may do."""
        self.exchanged: list[dict[str, str]] = []

    def end(self, person: str, *, renewable: bool) -> None:
        """No token of a person's counts any more; what they are renewed with may."""
        self.valid -= {token for token, whose in self.persons.items() if whose == person}
        if not renewable:
            self.refreshes = {token: whose for token, whose in self.refreshes.items() if whose != person}

    def issue(self, person: str) -> dict[str, Any]:
        access, refresh = (f"{kind}-{person}-{secrets.token_urlsafe(16)}" for kind in ("access", "refresh"))
        self.persons[access] = self.refreshes[refresh] = person
        self.valid.add(access)
        return {
            "access_token": access,
            "refresh_token": refresh,
            "token_type": "Bearer",
            "expires_in": self.lifetime_s,
        }

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/.well-known/oauth-authorization-server", self._metadata),
            Route("/register", self._register, methods=["POST"]),
            Route("/authorize", self._authorize),
            Route("/token", self._token, methods=["POST"]),
            Route("/revoke", self._revoke, methods=["POST"]),
        ]

    async def _metadata(self, _request: Request) -> Response:
        about = {
            f"{name}_endpoint": f"{self.url}/{path}"
            for name, path in (
                ("registration", "register"),
                ("authorization", "authorize"),
                ("token", "token"),
                ("revocation", "revoke"),
            )
        }
        more = {"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
        return JSONResponse({"issuer": self.url, **about, **more})

    async def _register(self, request: Request) -> Response:
        self.clients += 1
        return JSONResponse({**await request.json(), "client_id": f"client-{self.clients}"}, 201)

    async def _authorize(self, request: Request) -> Response:
        code, query = secrets.token_urlsafe(16), request.query_params
        self.codes[code] = request.headers[PERSON], query["code_challenge"]
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}", 302)

    async def _token(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        if form["grant_type"] == "authorization_code":
            person, challenge = self.codes.pop(form["code"])
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != challenge:
                self.wrong.append("a code came without its verifier")
            return JSONResponse(self.issue(person))
        if form["grant_type"] == EXCHANGE:
            self.exchanged.append(form)
            payload = form["subject_token"].split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
            return JSONResponse({**self.issue(claims["sub"]), "issued_token_type": "access_token"})
        person = self.refreshes.pop(form["refresh_token"], "")
        if not person:
            return JSONResponse({"error": "invalid_grant"}, 400)
        return JSONResponse(self.issue(person))

    async def _revoke(self, request: Request) -> Response:
        token = parse_qs((await request.body()).decode())["token"][0]
        self.valid.discard(token)
        self.refreshes.pop(token, None)
        return Response(status_code=200)


class Desk:
    """An MCP server in both eras: it lists a tool of each person's own, and says who called."""

    def __init__(self, authority: Authority) -> None:
        self.authority, self.url = authority, ""
        self.sessions: dict[str, str] = {}
        self.seen: list[tuple[str, str, str]] = []
        """Method, whose token, and for whom the caller says that it is; ``""`` where it does not say."""
        self.wrong: list[str] = []

    @property
    def routes(self) -> list[Route]:
        return [
            Route("/mcp", self._mcp, methods=["POST", "GET", "DELETE"]),
            Route("/.well-known/oauth-protected-resource/mcp", self._resource),
        ]

    async def _resource(self, _request: Request) -> Response:
        return JSONResponse({"resource": self.url, "authorization_servers": [self.authority.url]})

    async def _mcp(self, request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.authority.valid:
            where = self.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
            return JSONResponse({}, 401, {"WWW-Authenticate": f'Bearer resource_metadata="{where}"'})
        person, session = self.authority.persons[token], request.headers.get("mcp-session-id", "")
        if session and self.sessions.setdefault(session, person) != person:
            self.wrong.append(f"{person} came in the session of {self.sessions[session]}")
        if request.method != "POST":
            return Response(status_code=405 if request.method == "GET" else 200)
        message = await request.json()
        if "id" not in message:
            return Response(status_code=202)
        params = message.get("params", {})
        said = str(params.get("arguments", {}).get("as", ""))
        self.seen.append((message["method"], person, said))
        if said and said != person:
            self.wrong.append(f"a call of {said} came with a token of {person}")
        result, headers = self._answer(message["method"], params, person), {}
        if message["method"] == "initialize":
            headers = {"Mcp-Session-Id": (made := secrets.token_urlsafe(12))}
            self.sessions[made] = person
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], **result}, headers=headers)

    def _answer(self, method: str, params: dict[str, Any], person: str) -> dict[str, Any]:
        able = {"tools": {}, "resources": {}}
        about, done = {"name": "desk", "version": "1"}, {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        if method == "initialize":
            return {"result": {"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": about}}
        if method == "server/discover":
            meta = {"io.modelcontextprotocol/serverInfo": about}
            return {"result": {"supportedVersions": [MODERN], "capabilities": able, "_meta": meta, **done}}
        if method == "tools/list":
            schema = {"type": "object", "properties": {"as": {"type": "string"}}}
            tools = [{"name": name, "inputSchema": schema} for name in ("whoami", f"of_{person}")]
            return {"result": {"tools": tools, **done}}
        if method == "resources/list":
            return {"result": {"resources": [{"name": person, "uri": f"desk://{person}"}], **done}}
        if method == "tools/call":
            return {"result": {"content": [{"type": "text", "text": person}], "resultType": "complete"}}
        return {"error": {"code": -32601, "message": f"Method not found: {method}"}}


class Places:
    """Both servers, as they run."""

    def __init__(self) -> None:
        self.authority = Authority()
        self.desk = Desk(self.authority)

    def nothing_wrong(self) -> None:
        """See that nothing happened that may not."""
        assert [*self.authority.wrong, *self.desk.wrong] == []


@asynccontextmanager
async def places() -> AsyncIterator[Places]:
    """Both, on ports of their own."""
    made = Places()
    async with served(made.authority.routes) as authority, served(made.desk.routes) as desk:
        made.authority.url, made.desk.url = authority, f"{desk}/mcp"
        yield made


@asynccontextmanager
async def gateway(
    there: Places, folder: Path, *, http: Mapping[str, Any] | None = None, guard: Any = None, **options: Any
) -> AsyncIterator[Gateway]:
    """A gateway at which each principal has a login of their own; ``options`` are of the server.

    Args:
        there: The servers.
        folder: Where its store is.
        http: ``[plugins.http]``.
        guard: A plugin that knows keys.
        **options: Fields of ``[servers.desk]``.
    """
    tables = {"sqlite": {"path": str(folder / "pml.db")}, "http": {"keyring": False, **(http or {})}}
    one = {"sharing": "per_principal", "relist_s": 0.0, **options}
    config = Config(
        gateway=GatewaySettings(log_level="warning", store="sqlite", list_wait_s=60.0, tools_exposure="full_proxy"),
        servers={"desk": ServerSettings(url=there.desk.url, **one)},
        tables=tables,
        sources=(Source("test", {"plugins": tables}),),
    )
    records = [
        registry.provide("pml.transport", "http", Http),
        provided("exposure_mode", "full_proxy", FullProxy),
        provided("executor", "dag", Dag),
        provided("hooks", "workflow_tool", pml_executor_dag.tool),
        provided("store", "sqlite", SqliteStore),
    ]
    records += [] if guard is None else [provided("guards", "access", guard)]
    async with Gateway(config, None, records) as started:
        yield started


@asynccontextmanager
async def listening(made: Gateway) -> AsyncIterator[str]:
    """The gateway's own listener; its address."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    endpoint = Endpoint(name="listener", address="http://127.0.0.1:0")
    serving = made.transport("http").serve(endpoint, made.accept, started=started.set_result, routes={})
    task = asyncio.ensure_future(serving)
    try:
        yield await started
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def served(routes: list[Route]) -> AsyncIterator[str]:
    """An application on a free port; its address."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        config = uvicorn.Config(Starlette(routes=routes), log_level="critical", ws="none", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
        task = asyncio.ensure_future(server.serve(sockets=[bound]))
        while not server.started:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


def browser(person: str) -> httpx2.AsyncClient:
    """A browser at which ``person`` sits."""
    return httpx2.AsyncClient(headers={PERSON: person}, follow_redirects=True, timeout=60)


def jwt_of(person: str, lifetime_s: float = 600) -> str:
    """A token that nobody here has to verify."""
    parts = ({"alg": "none"}, {"sub": person, "exp": time.time() + lifetime_s, "jti": secrets.token_hex(4)})
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=").decode() for p in parts), "x"])


def kept_in(folder: Path) -> bytes:
    """All that the store has written."""
    return b"".join(file.read_bytes() for file in folder.glob("pml.db*"))
