"""Approvals from an agent's request to its result: an agent over stdio, ``pml console`` by itself, and Chromium."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, stdio_client

SERVER = Path(__file__).with_name("server.py")
LINK = re.compile(r"http://\S+/console/enter\?token=\S+")
PATIENCE_MS = 120_000
CONFIG = """
[gateway]
tools_exposure = "full_proxy"

[plugins.sqlite]
path = {database}

[plugins.approvals]
scope = "everywhere"
wait_s = 600

[servers.desk]
command = {python}
args = [{server}]
"""
RECORDER = """
window.Notification = class {
  static get permission() { return localStorage.allowed || "default"; }
  static async requestPermission() { return localStorage.allowed = "granted"; }
  constructor(title, options) { localStorage.told = (localStorage.told || "") + `${title}: ${options.body}\n`; }
};
"""
"""In place of the desktop's notifications: all pages of the browser share what was allowed, and what was told."""


class Desk:
    """Somebody's machine: a configuration, and what is started with it."""

    def __init__(self, folder):
        self.folder, self.config = folder, folder / "pml.toml"
        self.config.write_text(
            CONFIG.format(
                database=json.dumps(str(folder / "pml.db")),
                python=json.dumps(sys.executable),
                server=json.dumps(str(SERVER)),
            )
        )
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
        self.environment = {**kept, "PML_HOME": str(folder / "home")}

    @contextmanager
    def console(self):
        """The link that ``pml console`` prints, while it runs."""
        command = [sys.executable, "-m", "pml_core", "console", "--no-browser", "--config", str(self.config)]
        with (self.folder / "console.log").open("w") as log:
            process = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True)
            try:
                yield next(match[0] for line in process.stdout if (match := LINK.search(line)))
            finally:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=60)
                process.kill()

    def call(self, mode, **arguments):
        """Have an agent that cannot ask its human call ``drop``, in the background."""
        return Call(self, mode, arguments)


class Call(threading.Thread):
    """One call of an agent's, with a gateway of its own over stdio."""

    def __init__(self, desk, mode, arguments):
        super().__init__(daemon=True)
        self._desk, self._mode, self._arguments, self._result = desk, mode, arguments, None
        self.start()

    def run(self):
        self._result = asyncio.run(self._called())

    async def _called(self):
        arguments = ["-m", "pml_core", "serve", "--config", str(self._desk.config)]
        parameters = StdioServerParameters(command=sys.executable, args=arguments, env=self._desk.environment)
        with (self._desk.folder / "agent.log").open("a") as log:
            async with Client(
                stdio_client(parameters, errlog=log), mode=self._mode, read_timeout_seconds=PATIENCE_MS / 1000
            ) as client:
                return await client.call_tool("desk__drop", self._arguments)

    def result(self):
        self.join(PATIENCE_MS / 1000)
        assert self._result is not None
        return self._result


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


@pytest.fixture
def person(chromium):
    """Opens a link of ``pml console``; what goes wrong in its pages fails the test."""
    contexts, problems = [], []

    def enter(link, script=RECORDER):
        context = chromium.new_context()
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        context.on("weberror", lambda error: problems.append(str(error.error)))
        context.on("console", lambda said: problems.append(said.text) if "Security Policy" in said.text else None)
        context.add_init_script(script)
        page = context.new_page()
        page.goto(link)
        page.click("main button")
        page.wait_for_url("**/console/")
        return page

    yield enter
    for context in contexts:
        context.close()
    assert problems == []


def told(page, least):
    """What the desktop was told, once it was told so much."""
    for _ in range(PATIENCE_MS // 100):
        lines = page.evaluate("localStorage.told || ''").splitlines()
        if len(lines) >= least:
            break
        page.wait_for_timeout(100)
    return lines


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_call_goes_on_when_it_is_approved_and_a_denial_is_told_to_the_model(desk, person, mode):
    with desk.console() as link:
        page = person(link)
        page.goto(link.partition("enter")[0] + "approvals")
        page.locator(".empty:has-text('Nothing waits')").wait_for()
        called = desk.call(mode, table="customers")
        card = page.locator("article.card:has-text('desk:drop')")
        card.wait_for()
        assert "customers" in card.inner_text()
        card.locator("button:has-text('Approve')").click()
        page.locator(".empty:has-text('Nothing waits')").wait_for()
        result = called.result()
        assert not result.is_error
        assert json.loads(result.content[0].text) == {"table": "customers"}

        called = desk.call(mode, table="orders")
        card = page.locator("article.card:has-text('orders')")
        card.wait_for()
        assert "changed" in card.locator("table.changes").inner_text()
        card.locator("input[name=reason]").fill("keep them")
        page.keyboard.press("Enter")
        result = called.result()
        assert result.is_error
        assert "keep them" in result.content[0].text


def test_every_page_tells_how_many_wait_and_the_desktop_is_told_once_it_is_allowed(desk, person):
    with desk.console() as link:
        page = person(link)
        console = link.partition("enter")[0]
        other = page.context.new_page()
        other.goto(f"{console}history")
        page.goto(f"{console}approvals")
        page.locator("[data-notify]").click()
        page.locator("text=You are notified").wait_for()
        first = desk.call("auto", table="orders")
        for one in (page, other):
            one.locator("[data-waiting]:has-text('1')").wait_for()
            assert one.title().startswith("(1) ")
        assert told(page, 1) == ["desk:drop waits for an answer: Asked by client:mcp"]
        page.locator("article.card button:has-text('Deny')").click()
        assert first.result().is_error
        called = desk.call("auto", table="customers")
        assert len(told(page, 2)) == 2
        page.locator("article.card button:has-text('Approve')").click()
        assert not called.result().is_error
        for one in (page, other):
            one.locator("[data-waiting]").wait_for(state="hidden")
            assert not one.title().startswith("(")


def test_requests_are_answered_with_the_keyboard_alone(desk, person):
    with desk.console() as link:
        page = person(link)
        page.goto(link.partition("enter")[0] + "approvals")
        calls = {name: desk.call("auto", table=name) for name in ("one", "two")}
        page.locator("article.card").nth(1).wait_for()
        for _ in range(50):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('[data-request]')"):
                break
        page.keyboard.press("j")
        second = page.evaluate("document.activeElement.dataset.request")
        assert page.locator("article.card").nth(1).get_attribute("data-request") == second
        name = "one" if "one" in page.locator("article.card").nth(1).inner_text() else "two"
        page.keyboard.press("r")
        page.keyboard.press("Enter")
        page.locator("[data-rehearsal]").wait_for()
        assert "Nothing has run" in page.locator("[data-rehearsal]").inner_text()
        page.locator(f"[data-request='{second}']").focus()
        page.keyboard.press("a")
        page.keyboard.press("Enter")
        assert json.loads(calls.pop(name).result().content[0].text) == {"table": name}
        page.locator(f"[data-request='{second}']").wait_for(state="hidden")
        assert page.url.endswith("#next")
        page.locator("article.card").focus()
        page.keyboard.press("d")
        page.keyboard.type("ask me on Monday")
        page.keyboard.press("Enter")
        (left,) = calls.values()
        assert "ask me on Monday" in left.result().content[0].text


@pytest.mark.attack
def test_hostile_arguments_are_text_and_bounded(desk, person):
    hostile = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>\u202eevil\u0000"
    with desk.console() as link:
        page = person(link)
        page.goto(link.partition("enter")[0] + "approvals")
        before = desk.call("auto", **{hostile: "x"})
        page.locator("article.card button:has-text('Approve')").click()
        assert not before.result().is_error
        called = desk.call("auto", **{hostile: hostile, "text": "x" * 1_000_000})
        card = page.locator("article.card")
        card.locator("table.changes").wait_for()
        assert "not shown" in card.inner_text()
        card.locator("button:has-text('Rehearse')").click()
        page.locator("[data-rehearsal]").wait_for()
        assert "<script>" in card.inner_text()
        assert "\u202e" not in card.inner_text()
        assert page.locator("main img, main script").count() == 0
        assert "taken" not in page.title()
        assert len(page.content()) < 500_000
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        card.locator("button:has-text('Deny')").click()
        assert called.result().is_error
