"""The console's pages about the past: history by filters and causes, one execution, the report, insight."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from console_browser import KEYS, Browser, run, served

from pml_hookspecs import ExecutionId, ExecutionRecord, Failure, Offer, Status, ToolCall, Workflow, hookimpl
from pml_kit.offers import ACCESS_WATCHERS

pytestmark = pytest.mark.anyio
HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>"


def call(tool="read", **arguments):
    return ToolCall(id="a", tool=f"db:{tool}", arguments=arguments)


def store_of(made):
    return made.gateway.assembly.services("console").store


async def put(made, id, **values):
    usual = {"kind": "workflow", "target": "", "principal": "ada", "agent": "writer", "status": Status.OK}
    at = datetime.now(UTC) - timedelta(hours=1)
    made_of = {"id": ExecutionId(id), "started_at": at, "duration_ms": 5, "trigger": "mcp", **usual, **values}
    await store_of(made).executions.put(ExecutionRecord(**made_of))


async def logged_in(made, key):
    browser = Browser(made)
    await browser.log_in(key)
    return browser


async def test_history_is_narrowed_by_person_tool_and_time():
    async with served() as made:
        await put(made, "one", intent="of ada")
        await put(made, "two", intent="of bob", principal="bob")
        await put(made, "old", intent="of long ago", started_at=datetime(2026, 1, 10, 9, 30, tzinfo=UTC))
        await put(made, "in", kind="tool", target="db:read", intent="called inside", parent=ExecutionId("one"))
        boss = await logged_in(made, "k-boss")
        for query, shown in (
            ("", {"of ada", "of bob"}),
            ("?person=ada", {"of ada"}),
            ("?person=bob&agent_name=writer", {"of bob"}),
            ("?tool=db:read", {"called inside"}),
            ("?tool=db:*&person=bob", set()),
            ("?since=2026-01-10T10:00%2B01:00&until=2026-01-10T11:00%2B01:00", {"of long ago"}),
            ("?since=2026-01-10T10:00&until=2026-01-10T11:00", set()),
        ):
            page = await boss.page(f"/history{query}")
            assert set(re.findall(r">(of \w+(?: \w+)?|called inside)</a>", page)) == shown, query
        assert "give an age" in await boss.page("/history?since=soon", 400)
        assert "of ada" not in await (await logged_in(made, "k-bob")).page("/history?person=ada")


async def test_failures_are_one_row_for_each_cause():
    async with served() as made:
        for n in range(3):
            await put(
                made, f"f{n}", intent="sum up", status=Status.ERROR, failure=Failure("x", f"timed out after {n} s")
            )
        why = Failure("x", HOSTILE)
        await put(made, "other", intent=HOSTILE, status=Status.ERROR, failure=why, principal="bob")
        boss = await logged_in(made, "k-boss")
        page = await boss.page("/history?view=causes")
        rows = re.findall(r'<td class="number">(\d+)</td><td>writer</td>', page)
        assert rows == ["3", "1"]
        assert "<img" not in page
        assert "alert(1)" in page
        assert "timed out" not in await boss.page("/history?view=causes&person=bob")
        assert "alert(1)" not in await (await logged_in(made, "k-ada")).page("/history?view=causes")
        assert "Traceback" not in await boss.page("/history?view=causes&since=soon", 400)


async def test_an_execution_is_rehearsed_again_copied_and_taken_away():
    async with served() as made:
        tasks = (call(path="/x"), ToolCall(id="b", tool="db:read", depends_on=("a",)))
        await run(made, Workflow(id="w", tasks=tasks, intent="two steps"), "k-ada")
        ada = await logged_in(made, "k-ada")
        (id,) = re.findall(r'/console/executions/([^"]+)">two steps', await ada.page("/history"))
        page = await ada.page(f"/executions/{id}")
        assert f'href="/console/plans?execution={id}"' in page
        assert "Rehearse again" in page
        answer = await ada.http.get(f"/console/executions/{id}/export")
        assert answer.headers["content-disposition"] == f'attachment; filename="execution-{id}.json"'
        assert answer.headers["content-type"] == "application/json"
        told = json.loads(answer.text)["execution"]
        assert (told["id"], told["message"], len(told["transcript"])) == (id, "two steps", 3)
        bob = await logged_in(made, "k-bob")
        assert "not yours" in await bob.page(f"/executions/{id}/export", 404)


@pytest.mark.attack
async def test_the_name_of_a_file_is_a_name():
    async with served() as made:
        await put(made, 'x"; a=../é', agent="writer")
        boss = await logged_in(made, "k-boss")
        answer = await boss.http.get("/console/executions/x%22%3B%20a%3D..%2F%C3%A9/export")
        assert answer.status_code == 404  # a slash is none of an id's
        await put(made, 'x"; é', agent="writer")
        answer = await boss.http.get("/console/executions/x%22%3B%20%C3%A9/export")
        assert answer.headers["content-disposition"] == 'attachment; filename="execution-x----.json"'


async def test_last_night_tells_readers_what_is_theirs():
    async with served() as made:
        waits = await run(made, Workflow(id="w", tasks=(call("drop", table="t"),)), "k-bob")
        assert waits.failure.code == "approval.required"
        ada = await logged_in(made, "k-ada")
        (id,) = re.findall(r'action="/console/approvals/([^"]+)"', await ada.page("/approvals"))
        await ada.send(f"/approvals/{id}", answer="deny", reason=HOSTILE)
        for key in ("k-ada", "k-boss", "k-bob"):
            page = await (await logged_in(made, key)).page("/report")
            assert "<td>denied</td><td>ada</td>" in page
            assert "<script>alert" not in page
        KEYS["k-eve"] = KEYS["k-bob"].__class__(principal="eve")
        try:
            assert "Nobody answered" in await (await logged_in(made, "k-eve")).page("/report")
        finally:
            del KEYS["k-eve"]


async def test_last_night_tells_of_servers_that_are_new():
    async with served() as made:
        boss = await logged_in(made, "k-boss")
        async with asyncio.timeout(60):
            while "new server" not in await boss.page("/report"):  # noqa: ASYNC110 - it is kept behind the scenes
                await asyncio.sleep(0.05)
        assert '<td class="what">db</td>' in await boss.page("/report")
        assert "new server" not in await (await logged_in(made, "k-ada")).page("/report")


async def test_insight_shows_times_errors_and_tools_used_together():
    async with served() as made:
        for n in range(20):
            status = Status.ERROR if n == 0 else Status.OK
            about = {"kind": "tool", "target": "db:read", "parent": ExecutionId("p"), "status": status}
            await put(made, f"c{n}", duration_ms=(n + 1) * 10, **about)
        await put(made, "p", intent="both", tool_calls=("db:read", "db:drop"), principal="ada")
        await put(made, "q", kind="tool", target=f"{HOSTILE}:x", tool_calls=(HOSTILE, "db:read"))
        ada = await logged_in(made, "k-ada")
        page = await ada.page("/insight")
        assert re.search(r'<td class="what">db:drop</td><td class="what">db:read</td><td class="number">1</td>', page)
        row = re.search(r">db</a></td>(.*?)</tr>", page, re.DOTALL)[1]
        assert [re.sub("<.*?>", "", cell) for cell in re.findall(r'number">(.*?)</td>', row)] == [
            "20", "1", "5.0 %", "105 ms", "100 ms", "190 ms",
        ]  # fmt: skip
        assert "<script>alert" not in page
        assert "<img" not in page
        nothing = await (await logged_in(made, "k-bob")).page("/insight?days=30")
        assert "db:drop" not in nothing


async def test_tokens_saved_are_told_by_day():
    async with served() as made:
        said = {"content": [{"type": "text", "text": "one two three four five"}]}
        await put(made, "plan", started_at=datetime.now(UTC))
        for n in range(2):
            about = {"kind": "tool", "target": "pml:search_tools", "response": said, "agent": ("writer", "client:x")[n]}
            await put(made, f"s{n}", started_at=datetime.now(UTC), **about)
        await put(made, "by hand", started_at=datetime.now(UTC), trigger="manual", agent="console")
        ada = await logged_in(made, "k-ada")
        page = " ".join((await ada.page("/insight")).split())
        in_words = r"([\d,]+) tokens, into each.*?([\d,]+) tokens \(default.*?([\d,]+) tokens with"
        direct, put_now, search = (int(one.replace(",", "")) for one in re.search(in_words, page).groups())
        assert search == 5
        day, *numbers = re.search(r"<td>(\d{4}-\d\d-\d\d)</td>(.*?)</tr>", page).groups()
        assert day == datetime.now(UTC).date().isoformat()
        told = [int(number.replace(",", "")) for number in re.findall(r'number">([-\d,]+)<', numbers[0])]
        assert told == [2, 2, 2 * direct, 2 * put_now + 2 * search, 2 * (direct - put_now - search)]
        assert "No client asked" in await (await logged_in(made, "k-bob")).page("/insight")


@pytest.mark.attack
async def test_whoever_watches_access_hears_of_sums_and_causes():
    heard = []

    class Watching:
        @hookimpl
        def pml_offers(self, services):
            async def watch(event):
                heard.append((event.kind, event.target, event.session.principal))

            return [Offer(ACCESS_WATCHERS, watch)]

    async with served(watching=Watching()) as made:
        ada = await logged_in(made, "k-ada")
        heard.clear()
        for path in ("/history?view=causes", "/report", "/insight"):
            await ada.page(path)
        targets = ("console failures", "console report", "console insight")
        assert heard == [("query", target, "ada") for target in targets]
