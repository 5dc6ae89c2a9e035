"""The console in a real browser: a gateway in a process of its own, Chromium of the system, and an agent over HTTP."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

SERVER = Path(__file__).with_name("server.py")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = "Chromium is not installed; on Debian: apt-get install chromium"
REVISION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "agent", "version": "1"},
}
PATIENCE_MS = 120_000
CONFIG = """
[gateway]
tools_exposure = "meta_only"

[plugins.sqlite]
path = {database}

[plugins.http.tokens]
agent = "agent-token"

[plugins.http.tokens.lead]
token = "lead-token"
scopes = ["approve", "operate", "system"]

[plugins.schedules.schedules.hourly]
every_s = 3600
tool = "desk:read"
arguments = {{ path = "/scheduled" }}

[servers.desk]
command = {python}
args = [{server}]

[servers.spare]
command = {python}
args = [{server}]
"""


class Gateway:
    """One that serves over HTTP, and an agent that calls its tools."""

    def __init__(self, process, url, database):
        self.process, self.url, self.database = process, url, database

    def call(self, name, arguments, token="agent-token"):
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": name, "arguments": arguments, "_meta": META},
        }
        headers = {
            "authorization": f"Bearer {token}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": REVISION,
            "mcp-method": "tools/call",
            "mcp-name": name,
        }
        answer = httpx2.post(f"{self.url}/mcp", json=message, headers=headers, timeout=PATIENCE_MS / 1000)
        text = answer.text
        if answer.headers["content-type"].startswith("text/event-stream"):
            text = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")][-1]
        return json.loads(text)

    def plan(self, intent, *tasks):
        return self.call("execute_workflow", {"intent": intent, "workflow": {"tasks": list(tasks)}})


@pytest.fixture(scope="session")
def gateway(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    config = folder / "pml.toml"
    config.write_text(
        CONFIG.format(
            database=json.dumps(str(folder / "pml.db")),
            python=json.dumps(sys.executable),
            server=json.dumps(str(SERVER)),
        )
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PML_")}
    command = [sys.executable, "-m", "pml_core", "serve", "--config", str(config), "--http", "127.0.0.1:0"]
    said = folder / "log.txt"
    with said.open("w") as log:
        process = subprocess.Popen(command, env={**kept, "PML_HOME": str(folder / "home")}, stderr=log, stdout=log)
        try:
            yield Gateway(process, address_in(said, process), folder / "pml.db")
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait()


def address_in(said, process):
    """Where it serves, once it says so."""
    for _ in range(PATIENCE_MS // 100):
        if found := re.search(r"serving MCP at (\S+)/mcp", said.read_text()):
            return found[1]
        assert process.poll() is None, said.read_text()
        time.sleep(0.1)
    raise AssertionError(said.read_text())


@pytest.fixture(scope="session")
def chromium():
    if CHROMIUM is None:
        if os.environ.get("PML_BROWSER_NEEDED"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as made:
        browser = made.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe():
    folder = os.environ.get("PML_E2E_NODE_DIR", "")
    script = Path(folder, "node_modules", "axe-core", "axe.min.js")
    if not script.is_file():
        problem = "axe-core is missing: tests/e2e/install_node_tools.sh FOLDER, and PML_E2E_NODE_DIR=FOLDER"
        (pytest.fail if os.environ.get("PML_BROWSER_NEEDED") else pytest.skip)(problem)
    return script.read_text(encoding="utf-8")


@pytest.fixture
def visitor(chromium, gateway):
    """Opens pages of whoever logs in; what goes wrong in them fails the test."""
    contexts, problems = [], []

    def open_page(token="lead-token", **options):
        context = chromium.new_context(base_url=gateway.url, **options)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if "Content Security Policy" in said.text else None)
        if token:
            page.goto("/console/login")
            page.fill("#token", token)
            page.click("main button")
            page.wait_for_url("**/console/")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []
