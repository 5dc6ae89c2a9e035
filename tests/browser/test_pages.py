from __future__ import annotations

import threading

import pytest

PAGES = (
    "/console/",
    "/console/history",
    "/console/history?view=causes",
    "/console/approvals",
    "/console/report",
    "/console/insight",
    "/console/tools",
    "/console/tools?query=read+something",
    "/console/tools/desk:read",
    "/console/plans",
    "/console/capabilities",
    "/console/schedules",
)
SIZES = {"narrow": (390, 844), "wide": (1280, 900)}
THREE = [
    {"id": "first", "tool": "desk:read", "arguments": {"path": "/a"}},
    {"id": "second", "tool": "desk:read", "arguments": {"text": "{{first}}"}},
    {"id": "third", "tool": "desk:read", "arguments": {}, "depends_on": ["second"]},
]


def open_execution(page, intent):
    page.goto("/console/history")
    page.click(f"td.what a:has-text('{intent}')")
    page.wait_for_url("**/executions/*")


def test_what_ran_is_found_and_drawn(visitor, gateway):
    gateway.plan("read three things", *THREE)
    page = visitor()
    open_execution(page, "read three things")
    assert page.locator("svg.graph g.box.ok").count() == 3
    assert page.locator("svg.graph path").count() == 2
    assert page.locator("svg.bars rect").count() == 3
    assert page.locator("time").first.inner_text() != page.locator("time").first.get_attribute("datetime")


def test_running_work_shows_without_loading_the_page_again(visitor, gateway):
    page = visitor()
    slow = {"id": "wait", "tool": "desk:slow", "arguments": {"seconds": 12}}
    worker = threading.Thread(target=gateway.plan, args=("wait a while", slow))
    worker.start()
    running = page.locator("tr:has-text('wait a while') .status.running")
    running.wait_for()
    worker.join()
    page.locator("tr:has-text('wait a while') .status.success").wait_for()
    running.wait_for(state="hidden")


def test_an_approval_is_given_in_the_browser_and_the_plan_runs(visitor, gateway):
    drop = {"id": "gone", "tool": "desk:drop", "arguments": {"table": "customers"}}
    waits = gateway.plan("clean up", drop)
    assert "approval" in str(waits)
    page = visitor()
    page.locator(".notice a").click()
    card = page.locator("article.card:has-text('desk:drop')")
    assert "customers" in card.inner_text()
    card.locator("button:has-text('Approve')").click()
    page.locator("article.card:has-text('desk:drop')").wait_for(state="hidden")
    done = gateway.plan("clean up", drop)
    assert done["result"].get("isError") is not True
    assert "customers" in str(done["result"])


def test_a_denial_reaches_the_agent(visitor, gateway):
    drop = {"id": "gone", "tool": "desk:drop", "arguments": {"table": "orders"}}
    gateway.plan("clean up orders", drop)
    page = visitor()
    page.goto("/console/approvals")
    card = page.locator("article.card:has-text('orders')")
    card.locator("input[name=reason]").fill("keep them")
    card.locator("button:has-text('Deny')").click()
    card.wait_for(state="hidden")
    assert "keep them" in str(gateway.plan("clean up orders", drop))


@pytest.mark.attack
def test_what_a_server_says_is_never_markup(visitor, gateway):
    gateway.plan("<img src=x onerror=\"document.title='taken'\">markup", {"id": "m", "tool": "desk:markup"})
    page = visitor()
    page.wait_for_timeout(3000)  # the part that goes on by itself has been replaced by then
    assert page.locator("main img, main b").count() == 0
    open_execution(page, "markup")
    assert "<b>bold</b>" in page.locator("main").inner_text()
    assert page.locator("main img, main b, main script").count() == 0
    assert page.title() != "taken"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_cut_off(visitor, gateway, size, scheme):
    width, height = SIZES[size]
    gateway.plan("a name that is long " * 20, *THREE)
    page = visitor(viewport={"width": width, "height": height}, color_scheme=scheme)
    for path in PAGES:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    open_execution(page, "a name that is long")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is (scheme == "light")


def test_pages_are_used_with_the_keyboard_alone(visitor, gateway):
    gateway.plan("by keyboard", *THREE)
    page = visitor(token="")
    page.goto("/console/login")
    page.locator("#token:focus").wait_for()  # browsers give it the focus when they come to it
    page.keyboard.type("lead-token")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('a') && document.activeElement.textContent") == "by keyboard":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/executions/*")


def test_everything_can_be_read_without_a_script(visitor, gateway):
    gateway.plan("no script", *THREE)
    page = visitor(java_script_enabled=False)
    assert "no script" in page.content()
    for path in PAGES:
        page.goto(path)
        assert page.locator("h1").count() == 1
    assert "UTC" in page.content() or page.locator("time").count() == 0


def test_a_reader_without_the_scope_answers_nothing(visitor, gateway):
    drop = {"id": "gone", "tool": "desk:drop", "arguments": {"table": "secret"}}
    gateway.plan("clean up secretly", drop)
    page = visitor(token="agent-token")
    assert page.locator(".notice").count() == 0
    page.goto("/console/approvals")
    assert "lacks the scope" in page.locator("main").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_object_to(visitor, gateway, axe, scheme):
    gateway.plan("for everybody", *THREE)
    gateway.plan("ask somebody", {"id": "gone", "tool": "desk:drop", "arguments": {"table": scheme}})
    page = visitor(color_scheme=scheme)

    def objections():
        page.evaluate(axe)
        found = page.evaluate("axe.run()")["violations"]
        return [(page.url, one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found]

    found = []
    for path in PAGES:
        page.goto(path)
        found += objections()
    open_execution(page, "for everybody")
    found += objections()
    page.goto("/console/executions/nobody")
    found += objections()
    anonymous = visitor(token="", color_scheme=scheme)
    anonymous.goto("/console/login")
    anonymous.evaluate(axe)
    found += [one["id"] for one in anonymous.evaluate("axe.run()")["violations"]]
    assert found == []
