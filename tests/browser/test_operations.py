from __future__ import annotations

import pytest

CODE = {"code": "return 6 * 7", "language": "python", "intent": "multiply by hand"}
NARROW = {"width": 390, "height": 844}


@pytest.fixture
def learned(gateway):
    """Code of the lead's that was learned."""
    gateway.call("run_code", CODE, token="lead-token")


def shown(page, wanted):
    """Load the page again until something is there."""
    for _ in range(300):
        if wanted.count():
            return
        page.wait_for_timeout(200)
        page.reload()
    raise AssertionError(page.locator("main").inner_text())


def test_learned_code_is_looked_at_and_switched_off_and_on(visitor, learned):
    page = visitor()
    page.click("nav a:has-text('Capabilities')")
    row = page.locator("tr:has-text('multiply by hand')")
    shown(page, row)  # it is learned after the answer
    row.locator("button:has-text('switch off')").click()
    row.locator("button:has-text('switch on')").click()
    row.locator("button:has-text('switch off')").wait_for()
    row.locator("a").first.click()
    page.wait_for_url("**/capabilities/*")
    assert "return 6 * 7" in page.locator("pre").inner_text()


def test_a_schedule_is_run_paused_and_resumed_without_a_script_on_a_small_screen(visitor, gateway):
    page = visitor(java_script_enabled=False, viewport=NARROW)
    page.goto("/console/schedules")
    row = page.locator("tr:has-text('hourly')")
    assert row.locator("time").count() >= 3
    row.locator("button:has-text('pause')").click()
    row.locator("button:has-text('resume')").click()
    row.locator("button:has-text('run now')").click()
    shown(page, row.locator(".status.ok"))  # a gateway begins it within two seconds
    row.locator("td a").click()
    page.wait_for_url("**/executions/*")
    assert "/scheduled" in page.locator("main").inner_text()


def test_a_schedule_is_paused_with_the_keyboard_alone(visitor, gateway):
    page = visitor()
    page.goto("/console/schedules")
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "pause":
            break
    page.keyboard.press("Enter")
    page.locator("button:has-text('resume')").click()
    page.locator("button:has-text('pause')").wait_for()
