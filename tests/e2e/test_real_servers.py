"""Servers that people use: each is visited directly and through the gateway, and nothing tells which was which."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import pytest
from mcp import Client

from . import plans
from .visit import ANSWER_S, Visitor, beyond_gateway, configuration, directly, serve, through

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
PAGE = b"<html><head><title>A page</title></head><body><h1>Tides</h1><p>High water is at <b>noon</b>.</p></body></html>"
PAGES = {
    "/": ("text/html", PAGE),
    "/data.json": ("application/json", b'{"tide": [1, 2, 3]}'),
    "/robots.txt": ("text/plain", b"User-agent: *\nDisallow: /private\n"),
}
AT_ONCE = 3
ONLY_TO_LISTENERS = {"notifications/resources/updated"}
"""What nobody is told in revision 2026-07-28 who has not asked for it, which these visits do not."""


class Site(BaseHTTPRequestHandler):
    """A small web site."""

    def do_GET(self):
        kind, body = PAGES.get(self.path, ("text/plain", b""))
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *about):
        """Tell nobody."""


@pytest.fixture(scope="module")
def web():
    """The address of a web site of this machine's own."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module", params=["legacy", "auto"])
def mode(request):
    return request.param


@pytest.fixture(scope="module")
def visited(request, node_tools, python_servers, web, tmp_path_factory):
    """Gives a plan, the visit made by it directly, and the one through a gateway.

    Those that the chosen tests need are made before the first of them, a few at once: they wait for processes.
    """

    def visit(planned, mode, folder):
        plan = planned(node_tools, python_servers, folder, web)

        async def both():
            plan.prepare()
            direct = await directly(plan.server, folder, mode, everything_in(plan))
            plan.prepare()
            return plan, direct, await through(plan.server, folder, mode, everything_in(plan))

        return anyio.run(both)

    with ThreadPoolExecutor(AT_ONCE) as threads:

        def begin(planned, mode):
            folder = tmp_path_factory.mktemp(f"{planned.__name__}-{mode}")
            return threads.submit(visit, planned, mode, folder)

        made = {each: begin(*each) for each in dict.fromkeys(chosen(request.session.items))}
    return lambda planned, mode: made[planned, mode].result()


def chosen(items):
    """The plans and modes of the tests that run."""
    for item in items:
        if "visited" in getattr(item, "fixturenames", ()):
            said = getattr(getattr(item, "callspec", None), "params", {})
            planned = [said["planned"]] if "planned" in said else plans.ALL
            modes = [said["mode"]] if "mode" in said else ["legacy"]
            yield from ((p, m) for p in planned for m in modes)


def everything_in(plan):
    async def visit(v):
        await v.list_tools()
        await v.list_features()
        await plan.visit(v)

    return visit


@pytest.fixture(scope="module", params=plans.ALL, ids=lambda planned: planned.__name__)
def planned(request):
    return request.param


@pytest.fixture(scope="module")
def visits(mode, planned, visited):
    """The visit made directly, and the one made through the gateway."""
    _, *both = visited(planned, mode)
    return both


def test_the_tools_are_the_same_but_for_the_prefix(visits):
    direct, proxied = visits
    assert direct.tools
    assert {n: json.dumps(t) for n, t in proxied.tools.items()} == {n: json.dumps(t) for n, t in direct.tools.items()}
    assert proxied.order == sorted(proxied.order)


def test_every_step_ends_the_same(visits):
    direct, proxied = visits
    assert proxied.outcomes == direct.outcomes


def test_the_steps_that_must_fail_do(visits, planned):
    direct, _ = visits
    assert len(failures(direct)) == plans.ERRORS[planned.__name__]


def failures(visitor):
    answers = [answer for _, answer in visitor.outcomes if isinstance(answer, dict)]
    return [a for a in answers if "error" in a or a["result"].get("isError")]


def test_the_same_notifications_come(visits):
    direct, proxied = visits
    expected = [n for n in direct.witness.notes if not proxied.modern or n[0] not in ONLY_TO_LISTENERS]
    assert proxied.witness.notes == expected


def test_all_servers_together_answer_the_same_by_call_tool(mode, visited, tmp_path):
    made = [visited(planned, mode) for planned in plans.ALL]

    async def visit_all():
        tree = configuration(*(plan.server for plan, _, _ in made))
        # What comes through a meta-tool is asked for like a step of a plan; a direct call is the client's business.
        tree["plugins"] = {"approvals": {"effects": "none"}}
        async with beyond_gateway(tmp_path, mode, tree) as (client, witness):
            assert len((await client.list_tools()).tools) == 3
            for plan, direct, _ in made:
                plan.prepare()
                visitor = Visitor(client, witness, plan.server.name, wrapped=True)
                await plan.visit(visitor)
                assert steps(visitor, plan) == steps(direct, plan)

    anyio.run(visit_all)


def steps(visitor, plan):
    """Outcomes of what is done with a server, lists left out."""
    return [o for o in visitor.outcomes if not o[0].endswith("/list") and o[0] not in plan.needs_to_be_alone]


def test_without_a_browser_the_error_says_that_there_is_none(visited):
    _, direct, _ = visited(plans.playwright, "legacy")
    (failure,) = failures(direct)
    assert "/no/such/browser" in failure["result"]["content"][0]["text"]


# One server for all, or one for each


@contextmanager
def http_gateway(folder, *servers):
    """A gateway that serves over HTTP: its address and its process."""
    command = serve(configuration(*servers, tools_exposure="full_proxy"), folder, "--http", "127.0.0.1:0")
    environment = {**os.environ, "PML_HOME": str(folder / "home")}
    log = folder / "gateway.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=folder, env=environment
        )
    try:
        assert eventually(lambda: re.search(r"serving MCP at (\S+)", log.read_text())), log.read_text()
        yield re.search(r"serving MCP at (\S+)", log.read_text())[1], process
    finally:
        process.terminate()
        assert process.wait(ANSWER_S) in (0, 143), log.read_text()


def eventually(condition, within_s=ANSWER_S):
    """Whether the condition comes true in time; processes come and go when they do, and nobody tells a stranger."""
    until = time.monotonic() + within_s
    while not (met := condition()) and time.monotonic() < until:
        time.sleep(0.05)
    return met


def running(process, word):
    """How many descendants of a process have a word in their command line, not counting those that these started."""
    found = 0
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text().split():
            try:
                command = Path(f"/proc/{child}/cmdline").read_text()
                found += 1 if word in command else running(child, word)
            except FileNotFoundError:  # gone since
                continue
    return found


@pytest.mark.parametrize(("sharing", "lengths"), [("shared", [1, 2]), ("per_client", [1, 1])])
def test_clients_over_http_share_a_server_or_have_one_each_as_configured(node_tools, tmp_path, sharing, lengths):
    async def think(address):
        counted = []
        async with AsyncExitStack() as stack:
            for _ in range(2):
                client = await stack.enter_async_context(Client(address, mode="legacy", cache=None))
                thought = await client.call_tool("thinking__sequentialthinking", plans.thought(1))
                counted.append(thought.structured_content["thoughtHistoryLength"])
        return counted

    with http_gateway(tmp_path, plans.thinking_server(node_tools, sharing=sharing)) as (address, _):
        assert anyio.run(think, address) == lengths


@pytest.mark.parametrize("sharing", ["shared", "per_client"])
def test_a_client_over_http_finds_its_server_as_it_left_it(node_tools, tmp_path, mode, sharing):
    async def think(address):
        async with Client(address, mode=mode, cache=None) as client:
            thoughts = [await client.call_tool("thinking__sequentialthinking", plans.thought(1)) for _ in range(3)]
        return [t.structured_content and t.structured_content["thoughtHistoryLength"] for t in thoughts]

    with http_gateway(tmp_path, plans.thinking_server(node_tools, sharing=sharing)) as (address, _):
        assert anyio.run(think, address) == [1, 2, 3]


def test_two_clients_have_a_browser_each_and_it_goes_with_them(node_tools, tmp_path):
    async def visit(address, process):
        async with AsyncExitStack() as stack:
            for _ in range(2):
                client = await stack.enter_async_context(Client(address, mode="legacy", cache=None))
                assert len((await client.list_tools()).tools) > 10
                opened = await client.call_tool("browser__browser_navigate", {"url": "about:blank"})
                assert opened.is_error
            both = await anyio.to_thread.run_sync(eventually, lambda: running(process.pid, "playwright") == 2)
            assert both, running(process.pid, "playwright")
        gone = await anyio.to_thread.run_sync(eventually, lambda: running(process.pid, "playwright") == 0)
        assert gone, running(process.pid, "playwright")

    with http_gateway(tmp_path, plans.playwright_server(node_tools)) as (address, process):
        anyio.run(visit, address, process)
