"""The console's page of approvals: what is asked for, compared, rehearsed and answered."""

from __future__ import annotations

import re

import pytest
from test_console import HOSTILE, TOOLS, Browser, call, run, served

import pml_dry_run.plugin
from pml_hookspecs import CodeRun, Step, Workflow
from pml_testing.gateway import ScriptedServer

pytestmark = pytest.mark.anyio


async def ask(made, *tasks, who="k-bob", **arguments):
    """Have a plan with a destructive call ask for approval."""
    return await run(made, Workflow(id="w", tasks=tasks or (call("drop", **arguments),)), who)


async def reader(made, key="k-ada"):
    browser = Browser(made)
    await browser.log_in(key)
    return browser


def ids(page):
    return re.findall(r'data-request="([^"]+)"', page)


def card(page, id):
    return page.partition(f'data-request="{id}"')[2].partition("</article>")[0]


async def test_what_is_asked_for_is_compared_with_what_was_approved_before():
    async with served() as made:
        ada = await reader(made)
        await ask(made, table="customers", rows=3)
        (first,) = ids(page := await ada.page("/approvals"))
        assert "asked for the first time" in card(page, first)
        await ada.send(f"/approvals/{first}", answer="approve")
        assert (await ask(made, table="customers", rows=3)).failure is None
        await ask(made, table="customers", rows=4, force=True)
        (second,) = ids(page := await ada.page("/approvals"))
        shown = re.sub(r"<[^>]+>|\s+", " ", card(page, second))
        assert "what ada approved" in shown
        rows = re.sub(r" +", " ", shown)
        assert "rows changed 3 4" in rows
        assert "force added true" in rows
        assert "table changed" not in rows
        await ask(made, table="customers", rows=3)
        newest, older = ids(page := await ada.page("/approvals"))
        assert "The same, member by member" in card(page, newest)
        assert older == second


async def test_a_rehearsal_of_what_is_asked_for_has_no_effect():
    server = ScriptedServer(TOOLS)
    async with served(server, more={("hooks", "dry_run"): pml_dry_run.plugin}) as made:
        ada = await reader(made)
        await ask(made, table="customers")
        (id,) = ids(await ada.page("/approvals"))
        answer = await ada.send(f"/approvals/{id}", answer="rehearse")
        assert answer.status_code == 200
        rehearsed = card(answer.text, id).partition("data-rehearsal")[2]
        assert "unknown: it never ran" in rehearsed
        assert "Nothing has run" in rehearsed
        assert server.calls == []
        assert ids(await ada.page("/approvals")) == [id]
        assert (await ada.send("/approvals/apr-0", answer="rehearse")).status_code == 404


@pytest.mark.attack
async def test_without_a_plugin_that_rehearses_nothing_runs():
    server = ScriptedServer(TOOLS)
    async with served(server) as made:
        ada = await reader(made)
        await ask(made, table="customers")
        (id,) = ids(await ada.page("/approvals"))
        await ada.send(f"/approvals/{id}", answer="rehearse")
    assert server.calls == []


async def test_plans_and_code_are_rehearsed_too():
    async with served(more={("hooks", "dry_run"): pml_dry_run.plugin}) as made:
        ada = await reader(made)
        plan = Workflow(id="inner", tasks=(call("read", path="/a"),), step=Step(approve=True))
        code = CodeRun(id="c", language="python", source="return 1", step=Step(approve=True))
        for task in (plan, code):
            await ask(made, task)
        for id in ids(await ada.page("/approvals")):
            shown = card((await ada.send(f"/approvals/{id}", answer="rehearse")).text, id)
            assert "data-rehearsal" in shown
            assert "cannot be rehearsed" not in shown


@pytest.mark.attack
async def test_hostile_arguments_are_text_and_bounded():
    odd = "a\u202eb\x00\x1b[31m\u200b"
    async with served() as made:
        ada = await reader(made)
        await ask(made, table=HOSTILE, **{HOSTILE: odd})
        (first,) = ids(await ada.page("/approvals"))
        await ada.send(f"/approvals/{first}", answer="approve")
        await ask(made, table=HOSTILE, **{HOSTILE: odd})
        await ask(made, table=HOSTILE * 2, text="x" * 1_000_000, **{f"{HOSTILE}\u202e{n}": n for n in range(500)})
        page = await ada.page("/approvals")
        (id,) = ids(page)
        assert "more characters are not shown" in card(page, id)
        assert "There may be more differences" in page
        rehearsed = (await ada.send(f"/approvals/{id}", answer="rehearse")).text
        for html in (page, rehearsed):
            assert len(html) < 500_000
            assert "<script>alert" not in html
            assert "<img" not in html
            assert not set("\u202e\x00\x1b\u200b") & set(html)
            assert not re.search(r"\son\w+=|style=", re.sub(r"&lt;.*?&gt;", "", html))


async def test_the_word_to_the_agent_goes_with_a_no():
    """Enter in a field presses the first button of its form."""
    async with served() as made:
        ada = await reader(made)
        await ask(made, table="x")
        page = await ada.page("/approvals")
        form = page.partition('<form method="post" action="/console/approvals/')[2].partition("</form>")[0]
        assert re.findall(r'name="answer" value="(\w+)"', form) == ["deny", "approve", "rehearse"]


async def test_what_waits_is_told_to_who_may_answer_alone():
    async with served() as made:
        bob = await reader(made, "k-bob")
        assert "data-waiting" in await bob.page("/history")
        assert (await bob.http.get("/console/live/waiting")).status_code == 204
