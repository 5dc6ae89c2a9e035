from __future__ import annotations

import json

PLAN = {
    "intent": "write a plan by hand",
    "tasks": [
        {"id": "first", "tool": "desk:read", "arguments": {"path": "/a"}},
        {"id": "second", "tool": "desk:read", "arguments": {"text": "{{first}}"}},
    ],
}


def test_a_plan_is_written_rehearsed_and_run(visitor, gateway):
    page = visitor()
    page.click("nav a:has-text('Plans')")
    page.fill("textarea", json.dumps(PLAN, indent=2))
    page.click("button:has-text('Rehearse')")
    page.locator("button:has-text('Run what was rehearsed')").wait_for()
    assert page.locator("svg.graph g.box.simulated").count() == 2
    assert page.locator("table tbody tr").count() == 2
    page.click("button:has-text('Run what was rehearsed')")
    page.wait_for_url("**/executions/*")
    assert page.locator("svg.graph g.box.ok").count() == 2


def test_a_plan_is_mended_by_what_is_found(visitor, gateway):
    page = visitor(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page.goto("/console/plans")
    page.fill("textarea", json.dumps(PLAN, indent=2).replace("desk:read", "desk:raed", 1))
    page.click("button:has-text('Rehearse')")
    finding = page.locator(".finding.error")
    assert "first" in finding.inner_text()
    assert "line 5" in finding.inner_text()
    page.fill("textarea", page.input_value("textarea").replace("desk:raed", "desk:read"))
    page.click("button:has-text('Rehearse')")
    assert page.locator(".finding.error").count() == 0
    page.click("button:has-text('Run what was rehearsed')")
    page.wait_for_url("**/executions/*")


def test_a_text_that_is_no_plan_is_marked_where_it_breaks(visitor, gateway):
    page = visitor()
    page.goto("/console/plans")
    page.fill("textarea", '{"tasks": [\n  oops\n]}')
    page.click("button:has-text('Rehearse')")
    problem = page.locator(".problem")
    assert "Line 2, column 3" in problem.inner_text()
    assert page.input_value("textarea") == '{"tasks": [\n  oops\n]}'


def test_a_plan_is_rehearsed_with_the_keyboard(visitor, gateway):
    page = visitor()
    page.goto("/console/plans")
    page.focus("textarea")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(json.dumps(PLAN))
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("button:has-text('Run what was rehearsed')").wait_for()


def test_what_ran_is_copied_as_a_plan(visitor, gateway):
    gateway.plan("copy me", {"id": "only", "tool": "desk:read", "arguments": {"path": "/c"}})
    page = visitor()
    page.goto("/console/history")
    link = page.locator("td.what a:has-text('copy me')").first.get_attribute("href")
    page.goto(f"/console/plans?execution={link.rsplit('/', 1)[1]}")
    assert json.loads(page.input_value("textarea"))["workflow"]["tasks"][0]["arguments"] == {"path": "/c"}
