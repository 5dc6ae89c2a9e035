"""Pages about the past in a real browser: a plan of 100 tasks, times in the reader's zone, a file, and insight."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from pml_console.templates import Templates

MANY, PATIENCE_MS = 100, 60_000
SIZES = {"narrow": (390, 844), "wide": (1280, 900)}


def open_execution(page, intent):
    page.goto("/console/history")
    page.click(f"td.what a:has-text('{intent}')")
    page.wait_for_url("**/executions/*")


def many_tasks():
    """Ten rows of ten, each task behind the one to its left, and all of a row behind the first one."""
    first = {"id": "begin", "tool": "desk:read", "arguments": {"path": "/"}}
    rest = [
        {"id": f"row_{n // 9}_task_{n % 9}", "tool": "desk:read", "arguments": {"n": n},
         "depends_on": ["begin" if n % 9 == 0 else f"row_{n // 9}_task_{n % 9 - 1}"]}
        for n in range(MANY - 1)
    ]  # fmt: skip
    return [first, *rest]


@pytest.fixture(scope="module")
def plan_of_many(gateway):
    answer = gateway.plan("a hundred tasks", *many_tasks())
    assert answer["result"].get("isError") is not True, str(answer)[:500]
    return "a hundred tasks"


@pytest.mark.parametrize("size", SIZES)
def test_a_plan_of_a_hundred_tasks_can_be_read(visitor, plan_of_many, size):
    width, height = SIZES[size]
    page = visitor(viewport={"width": width, "height": height})
    open_execution(page, plan_of_many)
    assert page.locator("svg.graph g.box.ok").count() == MANY
    assert page.locator("svg.bars rect").count() == MANY
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    overlaps = page.evaluate(
        """() => {
            const drawn = [...document.querySelectorAll("svg.graph g.box rect")];
            const boxes = drawn.map((one) => one.getBoundingClientRect());
            return boxes.filter((a, n) => boxes.slice(n + 1).some((b) =>
                a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length;
        }"""
    )
    assert overlaps == 0
    outside = page.evaluate(
        """() => [...document.querySelectorAll("svg.graph g.box")].filter((one) => {
            const box = one.querySelector("rect").getBoundingClientRect();
            return [...one.querySelectorAll("text")].some((t) => t.getBoundingClientRect().right > box.right);
        }).length"""
    )
    assert outside == 0
    drawn = page.locator("[aria-label=Plan]")
    assert drawn.bounding_box()["height"] < height
    drawn.focus()
    page.keyboard.press("ArrowRight")
    for _ in range(PATIENCE_MS // 100):
        if drawn.evaluate("(one) => one.scrollLeft") > 0:
            break
        page.wait_for_timeout(100)
    assert drawn.evaluate("(one) => one.scrollLeft") > 0
    page.click("summary:has-text('Tasks as a table')")
    assert page.locator("[aria-label=Tasks] tbody tr").count() == MANY


def test_times_are_asked_for_in_the_readers_zone(visitor, gateway, plan_of_many):
    page = visitor(timezone_id="Asia/Kolkata")
    page.goto("/console/history")
    assert page.locator("label:has-text('or from')").inner_text().startswith("or from (Asia/")
    there = datetime.now(UTC) + timedelta(hours=5, minutes=30)
    page.fill("[name=since]", (there - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M"))
    page.click("form.filters button")
    page.wait_for_url("**since=**")
    assert page.input_value("[name=since]") == (there - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M")
    page.locator(f"td.what a:has-text('{plan_of_many}')").wait_for()
    page.fill("[name=since]", (there - timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M"))
    page.fill("[name=until]", (there - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M"))
    page.click("form.filters button")
    page.locator("text=Nothing was found").wait_for()
    plain = visitor(java_script_enabled=False)
    plain.goto("/console/history")
    assert "or from (UTC)" in plain.locator("form.filters").inner_text()


def test_an_execution_is_taken_away_as_a_file_and_rehearsed_again(visitor, plan_of_many):
    page = visitor()
    open_execution(page, plan_of_many)
    with page.expect_download() as waiting:
        page.click("a:has-text('Export')")
    assert waiting.value.suggested_filename.startswith("execution-")
    told = json.loads(waiting.value.path().read_text(encoding="utf-8"))
    assert told["execution"]["message"] == plan_of_many
    page.click("button:has-text('Rehearse again')")
    page.wait_for_url("**/console/plans")
    page.locator("svg.graph g.box.simulated").first.wait_for()
    assert page.locator("svg.graph g.box").count() == MANY


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_insight_is_drawn_with_its_numbers_beside(visitor, gateway, size, scheme):
    tasks = [{"id": one, "tool": f"desk:{one}", "arguments": {}} for one in ("read", "markup")]
    gateway.plan("two tools", *tasks)
    width, height = SIZES[size]
    page = visitor(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto("/console/insight")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("svg.graph circle").count() >= 2
    pairs = page.locator("[aria-label='Pairs of tools used together'] tbody tr")
    assert pairs.filter(has_text="desk:markup").filter(has_text="desk:read").count() == 1
    assert page.locator("[aria-label='Times and errors by server'] tbody tr", has_text="desk").count() == 1
    assert page.locator("[aria-label='Tokens saved by day'] tbody tr").count() >= 1
    bars = [one.bounding_box() for one in page.locator("[aria-label='Tokens saved by day'] tr:last-child svg").all()]
    assert bars[0]["x"] == bars[1]["x"]
    inside = page.evaluate(
        """() => {
            const svg = document.querySelector("svg.graph").getBoundingClientRect();
            return [...document.querySelectorAll("svg.graph text")].every((one) => {
                const box = one.getBoundingClientRect();
                return box.left >= svg.left && box.right <= svg.right;
            });
        }"""
    )
    assert inside


LONG = "<b>a-name-without-a-space</b>" * 12
ROW = {"name": LONG, "runs": 3, "succeeded": 2, "failed": 1, "running": 0, "waiting": 0, "cost_usd": 0.5}
AT = "2026-11-26T03:04:05+00:00"
MAILED = {
    **ROW, "since": AT, "until": AT, "agents": [ROW], "people": [ROW], "tools": [ROW],
    "failures": [{"id": "a/b", "who": LONG, "what": LONG, "why": LONG, "times": 2, "last_at": AT, "first_at": AT}],
    "approvals": [
        {"answer": "denied", "by": LONG, "for": "ada", "agent": "", "target": LONG, "reason": LONG, "at": AT,
         "execution": "c"}
    ],
    "news": [{"what": "definition", "name": LONG, "fields": ["description"], "at": AT}],
}  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_the_page_to_mail_can_be_read_by_itself(chromium, axe, size):
    width, height = SIZES[size]
    page = chromium.new_page(viewport={"width": width, "height": height})
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_content(Templates().render("mail.html", report=MAILED, base_url="https://pml.test"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("b").count() == 0
    assert page.locator("a[href='https://pml.test/console/executions/a/b']").count() == 1
    page.evaluate(axe)
    found = page.evaluate("axe.run()")["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]][:2]) for one in found] == []
    assert asked == []
    page.close()
