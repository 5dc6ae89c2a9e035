"""The first page: servers that are switched from it, and a thousand executions at once."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import entry_points

from pml_hookspecs import EMPTY, ExecutionId, ExecutionRecord, Status, replace
from pml_testing.fakes import FakeServices

RUNNING, SHOWN = 1000, 20


def test_a_server_is_disabled_and_enabled_with_its_buttons(visitor):
    page = visitor()
    row = page.locator("tr:has(td:text-is('spare'))")
    row.locator(".status.up").wait_for()
    row.get_by_role("button", name="Disable spare").click()
    page.locator(".notice[role=status]", has_text="spare is disabled").wait_for()
    row.locator(".status.disabled").wait_for()
    row.get_by_role("button", name="Enable spare").click()
    page.locator(".notice[role=status]", has_text="spare is enabled").wait_for()
    row.locator(".status.up").wait_for()


def test_a_button_that_has_the_focus_keeps_it_while_the_page_goes_on(visitor, gateway):
    page = visitor()
    page.get_by_role("button", name="Restart spare").focus()
    gateway.plan("something new", {"id": "a", "tool": "desk:read"})
    page.locator("td.what a:has-text('something new')").wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Restart spare"


def test_whoever_may_not_change_servers_has_no_buttons(visitor):
    page = visitor(token="agent-token")
    assert page.locator("tr:has(td:text-is('spare'))").count() == 1
    assert page.locator("main button").count() == 0


def put(database, *records):
    """Write rows into the gateway's own store, as another gateway would."""

    async def write():
        (found,) = entry_points(group="pml.store", name="sqlite")
        store_type = found.load()
        async with store_type(store_type.settings_type(path=str(database)), FakeServices()) as store:
            for one in records:
                await store.executions.put(one)

    # Playwright has a loop in this thread.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, write()).result()


@contextmanager
def under_way(database):
    """So many executions of an agent's that have begun and not ended; they end with the block."""
    began_at = datetime.now(UTC)
    rows = [
        ExecutionRecord(
            id=ExecutionId(f"00000000-0000-7000-8000-{n:012x}"), kind="tool", target="desk:slow", principal="agent",
            agent="agent", trigger="mcp", intent=f"slow work {n}", status="running", started_at=began_at, request=EMPTY,
        )
        for n in range(RUNNING)
    ]  # fmt: skip
    put(database, *rows)
    try:
        yield rows
    finally:
        put(database, *(replace(one, status=Status.OK, duration_ms=1) for one in rows))


def test_a_thousand_executions_at_once_are_counted_and_the_page_goes_on(visitor, gateway):
    with under_way(gateway.database) as rows:
        page = visitor()
        assert page.locator("h2:has-text('Running')").inner_text() == "Running 1,000"
        running = page.locator("main .scroll").first.locator("tbody tr")
        assert running.count() == SHOWN
        assert "980 more run" in page.locator("main").inner_text()
        assert "What began last still runs" in page.locator("main").inner_text()
        put(gateway.database, replace(rows[-1], status=Status.OK, duration_ms=1))
        page.locator("h2:has-text('Running 999')").wait_for()
        assert page.locator("tr:has-text('slow work 999') .status.success").count() == 1
        assert running.count() == SHOWN
        page.locator("a:has-text('all of them')").click()
        assert "999 found" in page.locator("main").inner_text()
