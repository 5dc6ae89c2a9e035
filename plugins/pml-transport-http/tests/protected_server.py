"""A server that wants a login, and the authorization servers that it may name, which note all that they are asked."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from urllib.parse import parse_qs, unquote, urlencode

from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from pml_transport_http import Settings
from pml_transport_http.logins.keys import LoginKeys, place_of
from pml_transport_http.logins.principal_logins import SHARED, PrincipalLogins


class Authority:
    """An authorization server whose users agree to everything; ``methods`` is what its metadata says of clients."""

    def __init__(self, name, **metadata):
        self.name, self.more = name, metadata
        self.url = ""
        self.registered, self.authorized, self.asked = [], [], []
        self.granted = {}
        """Access tokens, with their scopes."""
        self.refuses = ""

    @property
    def clients(self):
        """The client of each request for a token, and how it presented itself."""
        found = []
        for form, header in self.asked:
            if header.startswith("Basic "):
                client, secret = base64.b64decode(header[6:]).decode().split(":")
                found.append((unquote(client), "basic", unquote(secret)))
            else:
                found.append((form.get("client_id"), "post", form.get("client_secret")))
        return found

    async def start(self, web):
        routes = [
            Route("/.well-known/oauth-authorization-server", self.metadata),
            Route("/register", self.register, methods=["POST"]),
            Route("/authorize", self.authorize),
            Route("/token", self.token, methods=["POST"]),
        ]
        self.url = (await web.serve(Starlette(routes=routes))).removesuffix("/mcp")
        return self

    async def metadata(self, request):
        ends = {name: f"{self.url}/{name}" for name in ("register", "authorize", "token")}
        return JSONResponse(
            {
                "issuer": self.url,
                "authorization_endpoint": ends["authorize"],
                "token_endpoint": ends["token"],
                "registration_endpoint": ends["register"],
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                **self.more,
            }
        )

    async def register(self, request):
        client = {**await request.json(), "client_id": f"{self.name}-{len(self.registered)}"}
        self.registered.append(client)
        return JSONResponse(client, 201)

    async def authorize(self, request):
        self.authorized.append(dict(request.query_params))
        back = {"code": request.query_params.get("scope", "-"), "state": request.query_params["state"]}
        return RedirectResponse(f"{request.query_params['redirect_uri']}?{urlencode(back)}", 302)

    async def token(self, request):
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        self.asked.append((form, request.headers.get("authorization", "")))
        if self.refuses:
            return JSONResponse({"error": self.refuses}, 400)
        token = f"{self.name}-token-{len(self.granted)}"
        scope = form.get("scope", form.get("code", ""))
        self.granted[token] = set(scope.split())
        return JSONResponse({"access_token": token, "token_type": "Bearer", "scope": scope})


class ProtectedServer:
    """An MCP server that every request needs a token of ``authority`` for, and ``tools/call`` one for ``write``."""

    def __init__(self, authority):
        self.authority = authority
        self.url = ""
        self.answered = []

    async def start(self, web):
        routes = [
            Route("/mcp", self.mcp, methods=["POST", "GET", "DELETE"]),
            Route("/.well-known/oauth-protected-resource/mcp", self.resource),
        ]
        self.url = await web.serve(Starlette(routes=routes))
        return self

    async def resource(self, request):
        return JSONResponse({"resource": self.url, "authorization_servers": [self.authority.url]})

    async def mcp(self, request):
        if request.method != "POST":
            return Response(status_code=405)
        message = await request.json()
        scopes = self.authority.granted.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        about = self.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
        if scopes is None:
            return self.refusal(401, f'scope="read", resource_metadata="{about}"')
        if message["method"] == "tools/call" and "write" not in scopes:
            return self.refusal(403, f'error="insufficient_scope", scope="write", resource_metadata="{about}"')
        self.answered.append(message["method"])
        return JSONResponse({"jsonrpc": "2.0", "id": message.get("id"), "result": {"scopes": sorted(scopes)}})

    def refusal(self, status, challenge):
        return JSONResponse({}, status, headers={"WWW-Authenticate": f"Bearer {challenge}"})


class Kept:
    """What a store keeps of the login at ``git``: documents, and secrets as versions before wrote them."""

    def __init__(self):
        self.plain, self.kept, self.secrets, self.documents = {}, {}, self, Documents(self)

    async def get(self, owner, name):
        return self.plain.get((owner, name))

    async def put(self, owner, name, value):
        if value is None:
            self.plain.pop((owner, name), None)
        else:
            self.plain[owner, name] = value

    async def login(self):
        return json.loads(await self.logins.get("git"))

    @property
    def logins(self):
        return PrincipalLogins(self.documents, LoginKeys(place_of(Settings(keyring=False))), SHARED)


class Documents:
    """The part of a store that keeps documents, as far as logins need it."""

    def __init__(self, store):
        self.store = store

    async def get(self, collection, key):
        return self.store.kept.get((collection, key))

    async def put(self, collection, key, value, *, marks=None, expires_at=None, if_version=None):
        before = self.store.kept.get((collection, key))
        if if_version is not None and if_version != (before.version if before else 0):
            return None
        version = before.version + 1 if before else 1
        made = SimpleNamespace(key=key, value=dict(value), marks=dict(marks or {}), version=version)
        self.store.kept[collection, key] = made
        return version

    async def delete(self, collection, key):
        return self.store.kept.pop((collection, key), None) is not None

    async def find(self, collection, *, marks=None, limit=100, cursor=None):
        items = [one for (where, _), one in self.store.kept.items() if where == collection]
        return SimpleNamespace(items=items, cursor=None)
