"""Two people, their agents, what everybody ran, and a gateway over HTTP that tells of it."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import httpx2

import pml_access.plugin
import pml_execution_tools.plugin
from pml_access import tokens
from pml_access.agents import Agents
from pml_access.keys import Keys
from pml_access.settings import Settings
from pml_hookspecs import ExecutionId, ExecutionRecord, Failure, Status
from pml_kit.mcp.protocol import META_CLIENT_CAPABILITIES, META_CLIENT_INFO, META_PROTOCOL_VERSION
from pml_store_sqlite import SqliteStore
from pml_testing.gateway import running
from pml_transport_http import Http

MODERN = "2026-07-28"
CALLERS = {
    "alice": ("user", "alice"),
    "bob": ("user", "bob"),
    "carol": ("user", "carol"),
    "report": ("agent", "report"),
    "mailer": ("agent", "mailer"),
    "system": ("system", ""),
}
"""Kind and holder of each key; ``local`` has none."""
KEYS = {name: tokens.new() for name in CALLERS}
BEGAN = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=30)
ABOUT = (
    ("alicetool", "alice", "claude", False),
    ("bobtool", "bob", "claude", False),
    ("alicereport", "alice", "report", True),
    ("carolreport", "carol", "report", True),
    ("reportmailer", "agent:report", "mailer", True),
    ("bobmailer", "bob", "mailer", True),
    ("carolfree", "carol", "free", True),
    ("reportown", "agent:report", "report", True),
    ("localtool", "local", "claude", False),
    # A client may give itself any name; that makes it no agent.
    ("pretender", "carol", "report", False),
    ("mailerown", "agent:mailer", "mailer", True),
)
"""Word that only it has, principal, agent, and whether that is a configured one."""
WORDS = [word for word, *_ in ABOUT]
OF_REPORT = {"alicereport", "carolreport", "reportown"}
OF_MAILER = {"reportmailer", "bobmailer", "mailerown"}
LISTED = {
    "alice": {"alicetool"} | OF_REPORT,
    "bob": {"bobtool"} | OF_REPORT | OF_MAILER,
    "carol": {"carolreport", "carolfree", "pretender"},
    "report": OF_REPORT | OF_MAILER,
    "mailer": OF_MAILER,
    "system": set(WORDS),
    "local": {"localtool"},
}
"""``report`` is alice's, shared with bob and may call ``mailer``, which is bob's; ``free`` is nobody's."""
READ = LISTED | {"report": OF_REPORT | {"reportmailer"}}


def record(number):
    """Each costs twice as much as the one before, so that any sum tells of what."""
    word, principal, agent, as_agent = ABOUT[number]
    failed = number % 3 == 2
    return ExecutionRecord(
        id=ExecutionId(f"01900000-0000-7000-8000-{number:012x}"),
        kind="tool",
        target=f"agents:{agent}" if as_agent else "files:read",
        principal=principal,
        agent=agent,
        as_agent=as_agent,
        trigger="schedule",
        intent=f"do {word}",
        status=Status.ERROR if failed else Status.OK,
        failure=Failure("tool.failed", f"no {word}") if failed else None,
        started_at=BEGAN + timedelta(seconds=number),
        duration_ms=1000 * (number + 1),
        request={"message": word},
        response={"said": word},
        cost_usd=float(1 << number),
        tokens_in=1 << number,
    )


RECORDS = {word: record(number) for number, word in enumerate(WORDS)}


def words_of(cost_usd):
    """Which executions a sum of costs is made of."""
    return {word for number, word in enumerate(WORDS) if round(cost_usd) >> number & 1}


class Caller:
    """One who asks over HTTP, by the tools or by the routes."""

    def __init__(self, url, name):
        key = {"authorization": f"Bearer {KEYS[name].text}"} if name in KEYS else {}
        self._http = httpx2.AsyncClient(base_url=url, headers=key, timeout=20)
        self._asked = 0

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        await self._http.aclose()

    async def send(self, method, params):
        """Any request of MCP; the response."""
        self._asked += 1
        about = {"name": "client", "version": "1"}
        meta = {META_PROTOCOL_VERSION: MODERN, META_CLIENT_CAPABILITIES: {}, META_CLIENT_INFO: about}
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": method,
            **({"mcp-name": params["name"]} if "name" in params else {}),
        }
        message = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": {"_meta": meta, **params}}
        return await self._http.post("/mcp", json=message, headers=headers)

    async def tool(self, name, **arguments):
        """A tool's structured answer; the text of its failure when it fails."""
        response = await self.send("tools/call", {"name": name, "arguments": arguments})
        result = response.json()["result"]
        text = result["content"][0]["text"]
        if result.get("isError"):
            return text
        assert json.loads(text) == result["structuredContent"]
        return result["structuredContent"]

    async def get(self, path, **query):
        """What a route answers; status and text when it refuses."""
        response = await self._http.get(f"/api{path}", params=query)
        if response.status_code == 200:
            return response.json()
        return f"{response.status_code} {response.json()['error']['message']}"


class World:
    """A gateway that serves."""

    def __init__(self, gateway, url):
        self.gateway, self.url = gateway, url

    def caller(self, name):
        return Caller(self.url, name)


async def fill(gateway, words):
    """Keys, rules and executions, into the store."""
    services = gateway.assembly.services("access")
    made = iter(KEYS.values())
    new, tokens.new = tokens.new, lambda: next(made)
    try:
        for kind, holder in CALLERS.values():
            await Keys(services).create({"kind": kind, "holder": holder}, by="root")
    finally:
        tokens.new = new
    agents = Agents(services, Settings())
    await agents.change("report", owner=lambda _: "alice", shared_with=lambda _: frozenset({"bob"}))
    await agents.change("report", permits=lambda _: frozenset({"mailer"}))
    await agents.change("mailer", owner=lambda _: "bob")
    for word in words:
        await gateway.store.executions.put(RECORDS[word])
    await pml_access.plugin._parts_of(services)[0].read()


@asynccontextmanager
async def world(folder, words=WORDS, *, servers=None, plugins=None, **access):
    """A gateway in whose history these executions are."""
    used = {
        ("store", "sqlite"): SqliteStore,
        ("guards", "access"): pml_access.plugin,
        ("hooks", "execution_tools"): pml_execution_tools.plugin,
        ("transport", "http"): Http,
        **(plugins or {}),
    }
    tables = {"sqlite": {"path": str(folder / "pml.db")}, "access": access}
    async with running(servers or {}, plugins=used, tables=tables, store="sqlite") as gateway:
        await fill(gateway, words)
        bound = asyncio.get_running_loop().create_future()
        serving = asyncio.ensure_future(gateway.serve("http://127.0.0.1:0", started=bound.set_result))
        await asyncio.wait([bound, serving], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        try:
            yield World(gateway, bound.result())
        finally:
            serving.cancel()
            await asyncio.wait([serving])


TIME = re.compile(r"20\d\d-\d\d-\d\dT[0-9:.]+Z")
ID = re.compile(r"0[0-9a-f]{7}-[0-9a-f]{4}-7[0-9a-f-]{21}")
SEEDED = {record.id for record in RECORDS.values()}


def scrubbed(answer):
    """What the asking itself leaves in the history is told without its times and ids, and where a page ends."""
    seeded = (BEGAN, BEGAN + timedelta(minutes=1))

    def time(found):
        return found[0] if seeded[0] <= datetime.fromisoformat(found[0]) <= seeded[1] else "<time>"

    text = TIME.sub(time, json.dumps(answer))
    text = re.sub(r'"next_cursor": "[^"]+"', '"next_cursor"', text)
    text = ID.sub(lambda found: found[0] if found[0] in SEEDED else "<id>", text)
    return re.sub(r'"(avg_)?duration_seconds": [0-9.]+', '"duration"', text) if "<time>" in text else text
