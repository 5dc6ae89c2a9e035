"""A console over HTTP: the listener's own application, somebody's browser, and keys of three people."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager

import httpx2
from starlette.applications import Starlette
from starlette.routing import Mount

import pml_approvals.plugin
import pml_console.plugin
import pml_execution_tools.plugin
from pml_console.settings import Settings
from pml_console.site import routes
from pml_hookspecs import Identity, RunOptions, UnauthenticatedError
from pml_testing.dispatching import InOrder
from pml_testing.gateway import ScriptedServer, running

SCHEMA = {"type": "object"}
TOOLS = [
    {"name": "read", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    {"name": "drop", "inputSchema": SCHEMA, "annotations": {"destructiveHint": True}},
]
KEYS = {
    "k-ada": Identity(principal="ada", scopes=frozenset({"approve"})),
    "k-bob": Identity(principal="bob"),
    "k-boss": Identity(principal="boss", scopes=frozenset({"system", "approve"})),
    "k-chief": Identity(principal="chief", scopes=frozenset({"system", "approve", "operate"})),
}


async def identify(token):
    if token in KEYS:
        return KEYS[token]
    raise UnauthenticatedError("The bearer token is not valid")


class WithIdentify:
    """What a listener does for open routes."""

    def __init__(self, application):
        self._application = application

    async def __call__(self, scope, receive, send):
        scope.setdefault("state", {})["identify"] = identify
        await self._application(scope, receive, send)


class Browser:
    """One that keeps cookies, and knows what stands in forms."""

    def __init__(self, application):
        transport = httpx2.ASGITransport(app=application)
        self.http = httpx2.AsyncClient(transport=transport, base_url="http://pml.test", follow_redirects=True)

    async def log_in(self, key):
        return await self.http.post("/console/login", data={"token": key})

    async def page(self, path, status=200):
        response = await self.http.get(f"/console{path}")
        assert response.status_code == status, response.text
        return response.text

    async def send(self, path, **form):
        token = re.search(r'name="form_token" value="([^"]+)"', await self.page("/"))
        return await self.http.post(f"/console{path}", data={"form_token": token[1] if token else "", **form})


@asynccontextmanager
async def served(
    server=None, watching=None, *, more=None, plugins=None, tables=None, gateway=None, **settings
):  # fmt: skip
    """``plugins`` take the place of those that run tasks one after the other, or stand beside them."""
    plugins = {
        **({("executor", "in_order"): InOrder} if plugins is None else plugins),
        ("hooks", "approvals"): pml_approvals.plugin,
        ("hooks", "console"): pml_console.plugin,
        ("hooks", "execution_tools"): pml_execution_tools.plugin,
        **(more or {}),
    }
    if watching is not None:
        plugins["hooks", "watching"] = watching
    tables = {"approvals": {"wait_s": 0}, **(tables or {})}
    servers = {"db": server or ScriptedServer(TOOLS)}
    async with running(servers, plugins=plugins, tables=tables, **(gateway or {})) as started:
        pages = routes(started.assembly.services("console"), Settings(**settings))
        made = WithIdentify(Starlette(routes=[Mount("/console", routes=pages)]))
        made.gateway = started
        yield made


async def run(made, task, who):
    services = made.gateway.assembly.services("console")
    return await services.run(task, services.session(KEYS[who], client="agent"), RunOptions(trigger="mcp"))
