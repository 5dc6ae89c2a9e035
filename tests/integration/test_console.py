"""The console over HTTP: the listener's own application, with real plugins behind it."""

from __future__ import annotations

import re

import pytest
from console_browser import TOOLS, Browser, run, served

from pml_hookspecs import Offer, ToolCall, Workflow, hookimpl
from pml_kit.offers import ACCESS_WATCHERS
from pml_testing.gateway import ScriptedServer

pytestmark = pytest.mark.anyio
HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>"


def call(tool="read", **arguments):
    return ToolCall(id="a", tool=f"db:{tool}", arguments=arguments)


async def test_nobody_sees_anything_who_is_not_logged_in():
    async with served() as made:
        browser = Browser(made)
        for path in ("/", "/history", "/approvals", "/report", "/executions/x", "/tools", "/tools/db:read"):
            assert "Access key" in await browser.page(path)
        assert (await browser.http.get("/console/live/now")).status_code == 403
        assert (await browser.http.post("/console/approvals/apr-1", data={"answer": "approve"})).status_code == 403


async def test_a_key_lets_in_and_a_wrong_one_does_not():
    async with served() as made:
        browser = Browser(made)
        refused = await browser.log_in("k-nobody")
        assert (refused.status_code, "not valid" in refused.text) == (401, True)
        welcome = await browser.log_in("k-ada")
        assert (welcome.status_code, welcome.url.path) == (200, "/console/")
        assert "ada" in welcome.text


@pytest.mark.attack
async def test_whoever_watches_access_hears_of_log_ins_that_fail_and_of_what_is_read():
    heard = []

    class Watching:
        @hookimpl
        def pml_offers(self, services):
            async def watch(event):
                heard.append((event.kind, event.code, event.execution))

            return [Offer(ACCESS_WATCHERS, watch)]

    async with served(watching=Watching()) as made:
        await run(made, Workflow(id="w", tasks=(call(),), intent="read it"), "k-ada")
        ada = Browser(made)
        await ada.log_in("k-nobody")
        assert heard == [("denied", "access.unauthenticated", "")]
        await ada.log_in("k-ada")
        assert heard.pop() == ("change", "console.login", "")
        (id,) = re.findall(r'/console/executions/([^"]+)">read it', await ada.page("/"))
        heard.clear()
        await ada.page(f"/executions/{id}")
        await ada.page("/executions/nobody", 404)
        assert heard == [("query", "", id), ("refused", "", "nobody")]
        await ada.send("/logout")
        assert heard[2:] == [("change", "console.logout", "")]


async def test_the_cookie_is_for_no_script_and_no_other_site():
    async with served() as made:
        browser = Browser(made)
        browser.http.follow_redirects = False
        answer = await browser.log_in("k-ada")
        cookie = answer.headers["set-cookie"].lower()
        assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/console"))
        assert "k-ada" not in cookie


async def test_pages_run_no_script_but_their_own_and_are_not_kept():
    async with served() as made:
        browser = Browser(made)
        await browser.log_in("k-ada")
        for path in ("/", "/login", "/static/console.css", "/static/console.js"):
            headers = (await browser.http.get(f"/console{path}")).headers
            assert "script-src 'self'" in headers["content-security-policy"]
            assert "default-src 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"\son\w+=|<script>|style=", await browser.page("/"))


async def test_readers_see_what_is_theirs():
    async with served() as made:
        await run(made, Workflow(id="w", tasks=(call(path="/ada"),), intent="what ada wants"), "k-ada")
        await run(made, Workflow(id="w", tasks=(call(path="/bob"),), intent="what bob wants"), "k-bob")
        for who, sees, not_this in (("k-ada", "what ada wants", "bob wants"), ("k-bob", "what bob wants", "ada wants")):
            browser = Browser(made)
            await browser.log_in(who)
            page = await browser.page("/history")
            assert sees in page
            assert not_this not in page
        boss = Browser(made)
        await boss.log_in("k-boss")
        page = await boss.page("/history")
        assert "what ada wants" in page
        assert "what bob wants" in page
        (id,) = re.findall(r'/console/executions/([^"]+)">what bob wants', page)
        ada = Browser(made)
        await ada.log_in("k-ada")
        assert "not yours to read" in await ada.page(f"/executions/{id}", 404)
        assert "/bob" in await boss.page(f"/executions/{id}")


async def test_what_servers_and_models_say_is_text():
    server = ScriptedServer(TOOLS)
    async with served(server) as made:
        await run(made, Workflow(id="w", tasks=(call(path=HOSTILE),), intent=HOSTILE), "k-ada")
        browser = Browser(made)
        await browser.log_in("k-ada")
        page = await browser.page("/history")
        (id,) = re.findall(r'/console/executions/([^"]+)">&lt;script', page)
        for html in (page, await browser.page(f"/executions/{id}")):
            assert "<script>alert" not in html
            assert "<img" not in html


async def test_a_plan_is_drawn():
    async with served() as made:
        tasks = (call(), ToolCall(id="b", tool="db:read", depends_on=("a",)))
        await run(made, Workflow(id="w", tasks=tasks, intent="two steps"), "k-ada")
        browser = Browser(made)
        await browser.log_in("k-ada")
        (id,) = re.findall(r'/console/executions/([^"]+)">two steps', await browser.page("/"))
        page = await browser.page(f"/executions/{id}")
        assert page.count('<g class="box') == 2
        assert page.count("<path d=") == 1
        assert page.count('<g class="bar') == 2


async def test_an_approval_is_given_and_what_waited_runs():
    server = ScriptedServer(TOOLS)
    async with served(server) as made:
        waits = await run(made, Workflow(id="w", tasks=(call("drop", table=HOSTILE),)), "k-bob")
        assert waits.failure.code == "approval.required"
        bob = Browser(made)
        await bob.log_in("k-bob")
        assert "lacks the scope" in await bob.page("/approvals", 400)
        ada = Browser(made)
        await ada.log_in("k-ada")
        assert "1 request waits" in await ada.page("/")
        page = await ada.page("/approvals")
        assert "db:drop" in page
        assert "<script>alert" not in page
        (id,) = re.findall(r'action="/console/approvals/([^"]+)"', page)
        assert (await bob.send(f"/approvals/{id}", answer="approve")).status_code == 400
        assert "Nothing waits" in (await ada.send(f"/approvals/{id}", answer="approve")).text
        done = await run(made, Workflow(id="w", tasks=(call("drop", table=HOSTILE),)), "k-bob")
        assert done.failure is None
    assert [name for name, _ in server.calls] == ["drop"]


async def test_a_denial_takes_its_word_to_the_agent():
    async with served() as made:
        await run(made, Workflow(id="w", tasks=(call("drop"),)), "k-bob")
        ada = Browser(made)
        await ada.log_in("k-ada")
        (id,) = re.findall(r'action="/console/approvals/([^"]+)"', await ada.page("/approvals"))
        await ada.send(f"/approvals/{id}", answer="deny", reason="not on a Friday")
        refused = await run(made, Workflow(id="w", tasks=(call("drop"),)), "k-bob")
        assert "not on a Friday" in refused.failure.message


async def test_a_tool_is_found_rehearsed_and_called_with_a_form():
    tool = {
        "name": "move",
        "description": "Move a file",
        "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}},
    }
    server = ScriptedServer([*TOOLS, tool])
    async with served(server) as made:
        ada = Browser(made)
        await ada.log_in("k-ada")
        assert "db:drop" in await ada.page("/tools")
        found = await ada.page("/tools?query=move+a+file")
        assert "/console/tools/db%3Amove" in found or "/console/tools/db:move" in found
        assert 'name="argument.path"' in await ada.page("/tools/db:move")
        bad = await ada.send("/tools/db:move", how="run", **{"argument.depth": "deep"})
        assert (bad.status_code, "depth" in bad.text) == (400, True)
        assert server.calls == []
        done = await ada.send("/tools/db:move", how="run", **{"argument.path": "/a", "argument.depth": "2"})
        assert done.status_code == 200
        assert server.calls == [("move", {"path": "/a", "depth": 2})]
        assert "not yours to call" in await ada.page("/tools/db:nothing", 404)


@pytest.mark.attack
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.test"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
async def test_a_form_of_another_site_is_refused(headers):
    async with served() as made:
        browser = Browser(made)
        await browser.log_in("k-ada")
        refused = await browser.http.post("/console/logout", headers=headers)
        assert refused.status_code == 403
        assert "ada" in await browser.page("/")


@pytest.mark.attack
async def test_a_form_without_the_token_of_its_log_in_is_refused():
    async with served() as made:
        await run(made, Workflow(id="w", tasks=(call("drop"),)), "k-bob")
        ada = Browser(made)
        await ada.log_in("k-ada")
        (id,) = re.findall(r'action="/console/approvals/([^"]+)"', await ada.page("/approvals"))
        for form in ({}, {"form_token": "x"}, {"form_token": ""}):
            answer = await ada.http.post(f"/console/approvals/{id}", data={"answer": "approve", **form})
            assert answer.status_code == 403
        assert "db:drop" in await ada.page("/approvals")


async def test_logging_out_ends_the_session_and_everywhere_all_of_them():
    async with served() as made:
        first, second, third = Browser(made), Browser(made), Browser(made)
        for browser in (first, second, third):
            await browser.log_in("k-ada")
        assert "Access key" in (await first.send("/logout")).text
        assert "Access key" in await first.page("/")
        assert "Access key" not in await second.page("/")
        await second.send("/logout", everywhere="1")
        assert "Access key" in await third.page("/")


async def test_the_link_of_the_command_works_once():
    async with served(one_time_token="secret") as made:
        mine, other = Browser(made), Browser(made)
        assert "Open it" in await mine.page("/enter?token=secret")
        assert (await mine.http.post("/console/enter", data={"token": "secret"})).url.path == "/console/"
        refused = await other.http.post("/console/enter", data={"token": "secret"})
        assert (refused.status_code, "has been used" in refused.text) == (401, True)
        assert "Access key" not in await mine.page("/")


async def test_the_first_page_goes_on_by_itself():
    async with served() as made:
        browser = Browser(made)
        await browser.log_in("k-ada")
        assert 'data-live="/console/live/now"' in await browser.page("/")


@pytest.mark.parametrize("query", ["?hours=x", "?status=nothing", "?cursor=%00", "?query=%00", "?hours=99999999999999"])
async def test_bad_filters_are_answered_in_words(query):
    async with served() as made:
        browser = Browser(made)
        await browser.log_in("k-ada")
        answer = await browser.http.get(f"/console/history{query}")
        assert answer.status_code in (200, 400)
        assert "Traceback" not in answer.text
